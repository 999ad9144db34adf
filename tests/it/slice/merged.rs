//! Base files that Java wrote, merged in the quick and in the plain way: equal rows, copied forms, and files that can be
//! merged again.

use crate::common::{golden, golden_names};
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use hudifs::ErrorKind;
use hudifs::format::instant::InstantTime;
use hudifs::format::properties::{BaseFormat, TableConfig};
use hudifs::record::parquet_file::ParquetFile;
use hudifs::record::schema::of_parquet;
use hudifs::record::{Keyed, MergeRules, TableSchema};
use hudifs::slice::keys::KeyFile;
use hudifs::slice::merge::{merge_base, merge_base_full};
use hudifs::slice::{BaseOptions, NewBase, WrittenFile};
use hudifs::storage::{LocalStorage, Storage, TablePath};
use hudifs::table::{StoredFile, Table, TableOptions};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::sync::Arc;

/// Base files of one table that are merged.
const FILES_MAX: usize = 1;

fn commit_time() -> MergeRules {
    let text = "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.timeline.layout.version=2\n\
                hoodie.record.merge.mode=COMMIT_TIME_ORDERING\n";
    MergeRules::new(&TableConfig::parse(text.as_bytes()).unwrap()).unwrap()
}

fn rows(storage: &dyn Storage, path: &TablePath, schema: &TableSchema) -> RecordBatch {
    let bytes = storage.read(path, 1 << 30).unwrap();
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(|b| schema.conform_with_meta(&b.unwrap()).unwrap()).collect();
    concat_batches(schema.with_meta(), &batches).unwrap()
}

/// Some rows of the file again, in another order and with other values; the first is deleted, and one is new.
fn changes(held: &RecordBatch, schema: &TableSchema, partition: &str) -> Option<Keyed> {
    let count = u32::try_from(held.num_rows()).unwrap();
    let keys: &StringArray = held.column(2).as_string();
    if count == 0 || keys.null_count() > 0 {
        return None;
    }
    // Row i gets the values of the row after it, but keeps its key.
    let places: Vec<u32> = (0..count).rev().step_by(2).collect();
    let values = UInt32Array::from_iter_values(places.iter().map(|p| (p + 1) % count).chain([0]));
    let users: Vec<usize> = (5..held.num_columns()).collect();
    let rows = take_record_batch(&held.project(&users).unwrap(), &values).unwrap();
    let rows = RecordBatch::try_new(schema.arrow().clone(), rows.columns().to_vec()).unwrap();
    let mut names: Vec<&str> = places.iter().map(|p| keys.value(*p as usize)).collect();
    names.push("a key that nobody has");
    let deletes = (0..names.len()).map(|at| Some(at == 0)).collect::<BooleanArray>();
    Some(Keyed {
        partitions: StringArray::from_iter_values(names.iter().map(|_| partition)),
        keys: StringArray::from(names),
        rows,
        deletes: Some(deletes),
    })
}

fn target(partition: &str, token: &str, instant: &str) -> NewBase {
    NewBase {
        partition: partition.to_owned(),
        file_id: "0b9a2c1e-0000-4000-8000-00000000000a-0".to_owned(),
        write_token: token.to_owned(),
        instant: InstantTime::parse(instant).unwrap(),
        task: 3,
    }
}

fn path_of(file: &WrittenFile) -> TablePath {
    TablePath::parse(file.stat.path.as_deref().unwrap()).unwrap()
}

fn stored(file: &WrittenFile) -> StoredFile {
    StoredFile { name: file.stat.file_name().unwrap().to_owned(), size: file.stat.size.unwrap() }
}

#[test]
fn base_files_of_java_merge_both_ways_alike() {
    let (mut merged, mut kept) = (0, 0);
    for name in golden_names() {
        let unpacked = golden(&name);
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new(&unpacked.base()).unwrap());
        let Ok(table) = Table::open(storage.clone(), TableOptions::default()) else { continue };
        let snapshot = table.snapshot();
        let config = snapshot.config();
        if config.base_format() != BaseFormat::Parquet
            || !config.populate_meta_fields()
            || config.bootstrap_base_path().is_some()
        {
            continue;
        }
        let partitions = snapshot.partitions().unwrap();
        let slices = partitions.iter().filter_map(|p| snapshot.file_slices(p).ok()).flatten();
        for slice in slices.filter(|s| s.base_file.is_some()).take(FILES_MAX) {
            let base = slice.base_file.clone().unwrap();
            let old = TablePath::parse(&slice.partition).unwrap().join(&base.name).unwrap();
            let footer = ParquetFile::open(&*storage, &old, Some(base.size)).unwrap().metadata(false).unwrap();
            let schema = match of_parquet(footer.file_metadata(), config.name()) {
                Ok(schema) => schema,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{name} {old}: {error}");
                    continue;
                }
            };
            let held = rows(&*storage, &old, &schema);
            let Some(keyed) = changes(&held, &schema, &slice.partition) else { continue };
            let options =
                BaseOptions { row_group_rows: 9, column_ranges: true, tell_keys: true, ..BaseOptions::default() };
            let (mut quick_old, mut full_old) = (base.clone(), base);
            // Twice: the second time it is a file of ours with columns of Java's.
            for instant in ["20300101000000000", "20300102000000000"] {
                let rules = commit_time();
                let merge = |is_quick: bool, old: &StoredFile, token: &str| -> WrittenFile {
                    let way = if is_quick { merge_base } else { merge_base_full };
                    let target = target(&slice.partition, token, instant);
                    let merged = way(&*storage, old, &target, &schema, &rules, std::slice::from_ref(&keyed), &options);
                    merged.unwrap_or_else(|e| panic!("{name} {}: {e}", old.name))
                };
                let quick = merge(true, &quick_old, &format!("1-{merged}-1"));
                let full = merge(false, &full_old, &format!("2-{merged}-2"));
                let quick_rows = rows(&*storage, &path_of(&quick), &schema);
                let full_rows = rows(&*storage, &path_of(&full), &schema);
                for column in (0..quick_rows.num_columns()).filter(|c| *c != 4) {
                    let field = schema.with_meta().field(column).name();
                    assert_eq!(quick_rows.column(column), full_rows.column(column), "{name} {old} {field}");
                }
                assert_eq!(quick.keys_added, full.keys_added);
                assert_eq!(quick.stat.num_updates, full.stat.num_updates);
                let keys = KeyFile::open(&*storage, &path_of(&quick), None).unwrap();
                assert!(keys.bloom().is_some() && keys.key_range().is_some());
                assert_eq!(keys.rows(), quick.stat.records.unwrap());
                let columns = |m: &parquet::file::metadata::ParquetMetaData| {
                    let schema = m.file_metadata().schema_descr_ptr();
                    schema.root_schema().get_fields().iter().map(|f| f.as_ref().clone()).collect::<Vec<_>>()
                };
                let new = ParquetFile::open(&*storage, &path_of(&quick), None).unwrap().metadata(false).unwrap();
                kept += columns(&new).iter().filter(|c| columns(&footer).contains(c)).count();
                (quick_old, full_old) = (stored(&quick), stored(&full));
                merged += 1;
            }
        }
    }
    if !golden_names().is_empty() {
        assert!(merged > 40, "{merged}");
        assert!(kept > 10 * merged, "columns of {merged} files keep their form: {kept}");
    }
}
