//! Logs appended to groups of tables that Spark wrote, and read again with what Spark wrote.

use super::golden::all_rows;
use crate::common::{Unpacked, repo, unpack};
use crate::golden::open;
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::Schema;
use hudifs::format::commit::CommitMetadata;
use hudifs::format::instant::{Action, InstantTime};
use hudifs::record::{Keyed, MergeRules, TableSchema, schema};
use hudifs::slice::WrittenFile;
use hudifs::slice::log::{LogFormat, LogOptions, LogRows, NewLog, append};
use hudifs::slice::read::{ReadOptions, SliceReader, slices_of};
use hudifs::table::{FileSlice, Listing, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// After all that the fixtures have.
const LATER: &str = "20990101000000000";

fn fixture(name: &str) -> Unpacked {
    unpack(&repo().join("tests/fixtures").join(format!("{name}.zip")), name)
}

fn schema_of(snapshot: &Snapshot) -> TableSchema {
    schema::of_snapshot(snapshot).unwrap().unwrap()
}

fn slice_rows(snapshot: &Snapshot, slice: &FileSlice) -> RecordBatch {
    let (table, rules) = (schema_of(snapshot), MergeRules::new(snapshot.config()).unwrap());
    let options = ReadOptions::of_snapshot(snapshot, 0);
    let reader = SliceReader::open(&**snapshot.storage(), snapshot.config(), slice, &table, &rules, &options).unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    concat_batches(table.with_meta(), &batches).unwrap()
}

/// Rows as the write path has them, with another value in their text column, and those of `deletes` as deletes.
fn keyed(rows: &RecordBatch, keys: Vec<String>, name: &str, deletes: &[usize]) -> Keyed {
    let user: Vec<usize> = (5..rows.num_columns()).collect();
    let user = rows.project(&user).unwrap();
    let renamed: ArrayRef = Arc::new(StringArray::from_iter_values(keys.iter().map(|k| format!("{name} {k}"))));
    let fields = user.schema();
    let columns = fields.fields().iter().zip(user.columns()).map(|(f, c)| match f.name().as_str() {
        "name" => renamed.clone(),
        "id" if f.data_type() == &arrow::datatypes::DataType::Utf8 => Arc::new(StringArray::from(keys.clone())),
        _ => c.clone(),
    });
    let schema = Arc::new(Schema::new(user.schema().fields().clone()));
    let rows_of = RecordBatch::try_new(schema, columns.collect()).unwrap();
    let partitions = rows.column_by_name("_hoodie_partition_path").unwrap().as_string::<i32>().clone();
    let marks = (0..keys.len()).map(|i| Some(deletes.contains(&i)));
    Keyed { rows: rows_of, keys: StringArray::from(keys), partitions, deletes: Some(marks.collect::<BooleanArray>()) }
}

/// Completes a delta commit as whoever writes the timeline would.
fn commit(table: &Unpacked, snapshot: &Snapshot, files: &[WrittenFile]) {
    let mut metadata = CommitMetadata { operation: Some("UPSERT".into()), ..CommitMetadata::default() };
    let table_schema = schema_of(snapshot);
    metadata.extra.insert("schema".into(), table_schema.avro().into());
    for file in files {
        metadata.add(&file.partition, file.stat.clone());
    }
    let layout = snapshot.config().layout();
    let bytes = metadata.encode(layout, Action::DeltaCommit).unwrap();
    let folder = table.base().join(snapshot.config().timeline_folder());
    let by_completion = snapshot.config().version().slices_by_completion_time();
    let name = if by_completion { format!("{LATER}_{LATER}.deltacommit") } else { format!("{LATER}.deltacommit") };
    std::fs::write(folder.join(format!("{LATER}.deltacommit.requested")), b"").unwrap();
    std::fs::write(folder.join(format!("{LATER}.deltacommit.inflight")), b"").unwrap();
    std::fs::write(folder.join(name), bytes).unwrap();
}

/// Appends an update, a delete and an insert to the group with the most rows; checks files and rows.
fn check(name: &str, format: LogFormat, small: bool) {
    let table = fixture(name);
    let snapshot = open(&table.base(), Listing::Storage).unwrap().snapshot();
    let slices = slices_of(&snapshot).unwrap();
    let slice = slices.iter().max_by_key(|s| slice_rows(&snapshot, s).num_rows()).unwrap();
    let rows = slice_rows(&snapshot, slice);
    assert!(rows.num_rows() >= 3, "{name}: {} rows", rows.num_rows());
    let some = take_record_batch(&rows, &arrow::array::UInt32Array::from(vec![0, 1, 2])).unwrap();
    let keys = some.column_by_name("_hoodie_record_key").unwrap().as_string::<i32>();
    let keys: Vec<String> = vec![keys.value(0).into(), keys.value(1).into(), "9999".into()];
    let new = keyed(&some, keys.clone(), "later", &[1]);
    let columns: Vec<String> = new.rows.schema().fields().iter().map(|f| f.name().clone()).collect();
    let before = all_rows(&snapshot, &columns).unwrap();

    let target = NewLog {
        partition: slice.partition.clone(),
        file_id: slice.file_id.clone(),
        write_token: "7-1-0".into(),
        instant: InstantTime::parse(LATER).unwrap(),
        task: 7,
        slice: Some(slice.clone()),
        named_by_writer: snapshot.config().version().slices_by_completion_time(),
    };
    let mut options = LogOptions::new(&BTreeMap::new()).unwrap();
    options.format = format;
    options.column_ranges = true;
    options.tell_keys = true;
    if small {
        (options.block_bytes, options.file_bytes) = (1, 1);
    }
    let table_schema = schema_of(&snapshot);
    let rules = MergeRules::new(snapshot.config()).unwrap();
    let known = BooleanArray::from(vec![true, true, false]);
    let given = [LogRows { rows: &new, known: Some(&known) }];
    let announced = std::sync::Mutex::new(Vec::new());
    let announce = |file: &str| {
        announced.lock().unwrap().push(file.to_owned());
        Ok(())
    };
    let storage = &**snapshot.storage();
    let files = append(storage, &target, &table_schema, &rules, &given, &options, &announce).unwrap();

    let names: Vec<String> = files.iter().map(|f| f.stat.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, announced.into_inner().unwrap(), "{name}: a marker for each file");
    assert!(if small { files.len() > 1 } else { files.len() == 1 }, "{name}: {names:?}");
    let sum = |of: fn(&WrittenFile) -> u64| files.iter().map(of).sum::<u64>();
    assert_eq!(
        (sum(|f| f.stat.num_inserts), sum(|f| f.stat.num_updates), sum(|f| f.stat.num_deletes)),
        (1, 1, 1),
        "{name}"
    );
    assert_eq!(files.iter().flat_map(|f| f.keys_added.clone()).collect::<Vec<_>>(), ["9999"]);
    assert_eq!(files.iter().flat_map(|f| f.keys_removed.clone()).collect::<Vec<_>>(), [keys[1].clone()]);
    let of_keys = files[0].columns.iter().find(|c| c.column == "_hoodie_record_key").unwrap();
    assert!(of_keys.values > 0 && of_keys.min.is_some());
    for file in &files {
        let on_disk = std::fs::metadata(table.base().join(file.stat.path.as_deref().unwrap())).unwrap().len();
        assert_eq!(file.stat.size, Some(on_disk));
    }

    // Not there before the commit, and all there after it.
    let again = open(&table.base(), Listing::Storage).unwrap().snapshot();
    assert_eq!(
        sorted(all_rows(&again, &columns).unwrap()),
        sorted(before.clone()),
        "{name}: uncommitted rows are seen"
    );
    commit(&table, &snapshot, &files);
    let after = open(&table.base(), Listing::Storage).unwrap().snapshot();
    let mut expected = before;
    let old = |i: usize| super::canonical::rows(&some.slice(i, 1), &columns).remove(0);
    let written = super::canonical::rows(&new.rows, &columns);
    for i in [0, 1] {
        let at = expected.iter().position(|r| *r == old(i)).unwrap();
        expected.remove(at);
    }
    expected.extend([written[0].clone(), written[2].clone()]);
    assert_eq!(sorted(all_rows(&after, &columns).unwrap()), sorted(expected), "{name} {format:?} small={small}");
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

#[test]
fn rows_appended_to_tables_of_every_version_are_merged() {
    for name in [
        "v6_mor_rollback_plain",
        "v6_mor_compaction_hive",
        "v8_mor_basic_plain",
        "v9_mor_basic_nested",
        "v9_mor_compaction_hive",
    ] {
        for format in [LogFormat::Avro, LogFormat::Parquet] {
            check(name, format, false);
        }
        check(name, LogFormat::Avro, true);
    }
}
