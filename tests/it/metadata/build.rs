//! Metadata tables that are made here: for tables that Hudi wrote without one, and for tables of our own from their first commit.

use crate::common::{golden, golden_names, has_golden};
use crate::golden::open as open_table;
use crate::write::rows::{keyed, records, row};
use crate::write::tables::{Setup, merged};
use hudifs::ErrorKind;
use hudifs::metadata::write::{MetadataKinds, RecordIndexShape};
use hudifs::storage::{self, Storage, StorageOptions};
use hudifs::table::{Listing, Table};
use hudifs::write::{IndexKind, Operation, WriteRequest, Writer, WriterOptions, verify_metadata};
use std::path::Path;
use std::sync::Arc;

fn store(base: &Path) -> Arc<dyn Storage> {
    storage::open(base.to_str().unwrap(), &StorageOptions::default()).unwrap()
}

fn kinds(columns: &[&str]) -> MetadataKinds {
    MetadataKinds {
        column_stats: columns.iter().map(|c| (*c).to_owned()).collect(),
        record_index: Some(RecordIndexShape { min_groups: 3, max_groups: 3 }),
    }
}

/// Fails unless all that the metadata table says is so, and lists what there is.
fn check(table: &Arc<Table>, what: &str) {
    table.refresh().unwrap();
    assert_eq!(table.snapshot().lister_name(), "metadata_table", "{what}: {:?}", table.snapshot().warnings());
    let findings = verify_metadata(table, true).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    assert!(findings.is_empty(), "{what}: {findings:#?}");
}

#[test]
fn tables_that_have_none_get_one() {
    let mut built = 0;
    for (name, columns) in [
        ("cow_v6_nonpartitioned", &["id", "name", "longField"][..]),
        ("cow_v6_complexkeygen_hivestyle", &["id", "byteField"]),
        ("mor_v6_trips_8i3d", &["ts", "rider", "fare"]),
        ("cow_v8_complexkeygen_hivestyle", &["id", "shortField"]),
        ("mor_v9_txns_simple_nometa", &["txn_id", "txn_ts", "amount", "txn_date", "region"]),
        ("cow_v9_txns_nonpart_nometa", &["txn_id", "amount"]),
        ("cow_v9_txns_complex_nometa", &["txn_id", "amount"]),
    ] {
        if !golden_names().iter().any(|n| n == name) {
            continue;
        }
        let unpacked = golden(name);
        let storage_listed = open_table(&unpacked.base(), Listing::default()).unwrap();
        let before: Vec<String> = files(&storage_listed);
        let writer = match Writer::open(store(&unpacked.base()), WriterOptions::default()) {
            Ok(writer) => writer,
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                println!("{name} is not written: {e}");
                continue;
            }
            Err(e) => panic!("{name}: {e:?}"),
        };
        for anew in [false, true] {
            writer.build_metadata(&kinds(columns), anew).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            check(writer.table(), name);
            assert_eq!(files(writer.table()), before, "{name}");
        }
        built += 1;
    }
    assert!(built >= 6 || !has_golden(), "{built}");
}

fn files(table: &Arc<Table>) -> Vec<String> {
    let snapshot = table.snapshot();
    let mut all = Vec::new();
    for partition in snapshot.partitions().unwrap().iter() {
        for file in snapshot.partition(partition).unwrap().all() {
            all.push(format!("{partition}/{}", file.name()));
        }
    }
    all
}

/// The tables of the history below, by name.
const SETUPS: [(&str, Setup); 4] = [
    ("cow6", Setup { index: IndexKind::RecordLevel, metadata: true, ..Setup::COW6 }),
    ("mor6", Setup { index: IndexKind::RecordLevel, metadata: true, ..Setup::MOR6 }),
    ("cow9", Setup { index: IndexKind::RecordLevel, metadata: true, ..Setup::COW9 }),
    ("mor9", Setup { index: IndexKind::RecordLevel, metadata: true, ..Setup::MOR9 }),
];

/// A table with all indexes, and a history of all kinds of commits. `each` is called after every commit.
fn history(base: &Path, setup: Setup, mut each: impl FnMut(&Writer, &str)) -> Writer {
    let kinds = kinds(&["id", "part", "ts", "amount", "note"]);
    let writer = Writer::create(store(base), &setup.spec(), Some(&kinds), setup.options()).unwrap();
    each(&writer, "created");
    let mut run = |request: WriteRequest, what: &str| {
        let report = writer.run(request).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        assert!(report.warnings.iter().all(|w| !w.contains("failed")), "{what}: {:?}", report.warnings);
        each(&writer, what);
    };
    let rows =
        |ids: std::ops::Range<u32>, revision: i64| -> Vec<_> { ids.map(|id| row(id, id % 3, revision)).collect() };
    run(WriteRequest::new(Operation::BulkInsert, records(&rows(0..60, 1), 17)), "bulk insert");
    for revision in 2..12 {
        let first = revision as u32 * 7 % 50;
        run(WriteRequest::new(Operation::Upsert, records(&rows(first..first + 15, revision), 100)), "upsert");
    }
    run(WriteRequest::new(Operation::Delete, records(&rows(10..20, 50), 100)), "delete");
    // Keys that move to another partition.
    let moved: Vec<_> = (20..26).map(|id| row(id, (id + 1) % 3, 60)).collect();
    run(WriteRequest::new(Operation::Upsert, records(&moved, 100)), "move");
    run(WriteRequest::new(Operation::InsertOverwrite, records(&[row(100, 1, 70), row(101, 1, 70)], 9)), "overwrite");
    let mut gone = WriteRequest::new(Operation::DeletePartition, records(&[], 1));
    gone.records = None;
    gone.partitions = vec!["p2".to_owned()];
    run(gone, "delete partition");
    run(WriteRequest::new(Operation::Upsert, records(&rows(90..130, 80), 100)), "upsert");
    writer
}

#[test]
fn a_table_of_our_own_is_right_after_each_commit() {
    for (name, setup) in SETUPS {
        let dir = tempfile::tempdir().unwrap();
        let mut commits = 0;
        let writer = history(dir.path(), setup, |writer, what| {
            check(writer.table(), &format!("{name}: commit {commits}, {what}"));
            commits += 1;
        });
        keyed(merged(&writer));
        // It was compacted on the way.
        let base = hudifs::metadata::MetadataLister::open(&*store(dir.path()), writer.table().snapshot().timeline());
        let base = base.unwrap().base_file().unwrap().file_name().to_owned();
        assert!(!base.contains("_0000"), "{name}: {base} is still the first base file");
        // Dropping goes with what depends on it.
        let dropped = writer.drop_metadata(&["column_stats"]).unwrap();
        let expected: &[&str] =
            if setup.version >= 8 { &["column_stats", "partition_stats"] } else { &["column_stats"] };
        assert_eq!(dropped, expected, "{name}");
        writer.table().refresh().unwrap();
        assert_eq!(writer.table().snapshot().config().metadata_partitions(), ["files", "record_index"]);
        check(writer.table(), name);
        writer.drop_metadata(&["files"]).unwrap();
        assert!(!dir.path().join(".hoodie/metadata").exists());
    }
}
