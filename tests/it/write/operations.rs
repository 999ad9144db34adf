//! Each operation on each type of table, once and plainly.

use super::rows::{self, keyed, read_optimized, records, row};
use super::tables::Setup;
use hudifs::write::{Operation, WriteRequest};

const ALL: [Setup; 4] = [Setup::COW6, Setup::MOR6, Setup::COW9, Setup::MOR9];

#[test]
fn upserts_update_insert_and_delete() {
    for setup in ALL {
        let (_dir, writer) = setup.create();
        let first: Vec<_> = (0..20).map(|id| row(id, id % 3, 1)).collect();
        let report = writer.run(WriteRequest::new(Operation::Upsert, records(&first, 6))).unwrap();
        assert_eq!((report.rows, report.inserted, report.updated, report.deleted), (20, 20, 0, 0), "{setup:?}");
        assert_eq!(report.files.len(), 3);
        assert_eq!(keyed(read_optimized(&writer)), keyed(first.clone()), "{setup:?}");

        let second: Vec<_> = (10..25).map(|id| row(id, id % 3, 2)).collect();
        let report = writer.run(WriteRequest::new(Operation::Upsert, records(&second, 100))).unwrap();
        assert_eq!((report.rows, report.inserted, report.updated, report.deleted), (15, 5, 10, 0), "{setup:?}");
        let mut wanted = keyed(first);
        wanted.extend(keyed(second));
        assert_eq!(keyed(setup.merged(&writer)), wanted, "{setup:?}");

        let gone: Vec<_> = [0, 11, 99].map(|id| row(id, id % 3, 3)).to_vec();
        let report = writer.run(WriteRequest::new(Operation::Delete, records(&gone, 100))).unwrap();
        assert_eq!((report.rows, report.inserted, report.updated, report.deleted), (3, 0, 0, 2), "{setup:?}");
        assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
        wanted.retain(|(_, id), _| gone.iter().all(|g| g.id != *id));
        assert_eq!(keyed(setup.merged(&writer)), wanted, "{setup:?}");
    }
}

#[test]
fn file_groups_keep_their_keys() {
    let (_dir, writer) = Setup::COW6.create();
    let all: Vec<_> = (0..10).map(|id| row(id, 0, 1)).collect();
    let groups = |writer: &hudifs::write::Writer| {
        let snapshot = writer.table().snapshot();
        let view = snapshot.partition(&hudifs::storage::TablePath::parse("p0").unwrap()).unwrap();
        view.listed().map(|f| f.file_id().to_owned()).collect::<Vec<_>>()
    };
    writer.run(WriteRequest::new(Operation::Upsert, records(&all, 100))).unwrap();
    let before = groups(&writer);
    assert_eq!(before.len(), 1);
    for revision in 2..22 {
        let some = [row(3, 0, revision), row(7, 0, revision)];
        let report = writer.run(WriteRequest::new(Operation::Upsert, records(&some, 100))).unwrap();
        assert_eq!(report.updated, 2);
        assert_eq!(groups(&writer), before);
    }
    assert_eq!(read_optimized(&writer).len(), 10);
}

#[test]
fn an_older_row_loses_where_ordering_values_decide() {
    for setup in [Setup::COW9, Setup::MOR9] {
        let (_dir, writer) = setup.create();
        writer.run(WriteRequest::new(Operation::Upsert, records(&[row(1, 0, 5)], 9))).unwrap();
        writer.run(WriteRequest::new(Operation::Upsert, records(&[row(1, 0, 3), row(1, 0, 4)], 9))).unwrap();
        assert_eq!(setup.merged(&writer), [row(1, 0, 5)], "{setup:?}");
        writer.run(WriteRequest::new(Operation::Upsert, records(&[row(1, 0, 7), row(1, 0, 6)], 9))).unwrap();
        assert_eq!(setup.merged(&writer), [row(1, 0, 7)], "{setup:?}");
    }
}

#[test]
fn overwrites_replace_what_they_touch() {
    for setup in ALL {
        let (_dir, writer) = setup.create();
        let first: Vec<_> = (0..9).map(|id| row(id, id % 3, 1)).collect();
        writer.run(WriteRequest::new(Operation::BulkInsert, records(&first, 4))).unwrap();
        assert_eq!(keyed(read_optimized(&writer)), keyed(first.clone()), "{setup:?}");
        let other = [row(50, 1, 2), row(51, 1, 2)];
        let report = writer.run(WriteRequest::new(Operation::InsertOverwrite, records(&other, 4))).unwrap();
        assert_eq!((report.action.as_str(), report.replaced > 0), ("replacecommit", true), "{setup:?}");
        let mut wanted = keyed(first);
        wanted.retain(|(part, _), _| part != "p1");
        wanted.extend(keyed(other.to_vec()));
        assert_eq!(keyed(read_optimized(&writer)), wanted, "{setup:?}");
        writer.run(WriteRequest::delete_partitions(vec!["p2".to_owned()])).unwrap();
        wanted.retain(|(part, _), _| part != "p2");
        assert_eq!(keyed(read_optimized(&writer)), wanted, "{setup:?}");
        let last = [row(77, 0, 3)];
        writer.run(WriteRequest::new(Operation::InsertOverwriteTable, records(&last, 4))).unwrap();
        assert_eq!(read_optimized(&writer), last, "{setup:?}");
    }
}

#[test]
fn a_repeated_request_with_a_key_is_one_commit() {
    let (_dir, writer) = Setup::COW6.create();
    let request = |revision| WriteRequest {
        idempotency_key: Some("load-7".to_owned()),
        ..WriteRequest::new(Operation::Upsert, records(&[row(1, 0, revision)], 9))
    };
    let first = writer.run(request(1)).unwrap();
    let again = writer.run(request(2)).unwrap();
    assert!(again.replayed && !first.replayed);
    assert_eq!((&again.instant, &again.files, again.inserted), (&first.instant, &first.files, 1));
    assert_eq!(rows::read_optimized(&writer), [row(1, 0, 1)]);
    let other = WriteRequest {
        idempotency_key: Some("load-7".to_owned()),
        ..WriteRequest::delete_partitions(vec!["p0".to_owned()])
    };
    assert!(writer.run(other).unwrap_err().message().contains("load-7"));
}

#[test]
fn a_dry_run_writes_nothing() {
    let (dir, writer) = Setup::COW6.create();
    writer.run(WriteRequest::new(Operation::Upsert, records(&[row(1, 0, 1)], 9))).unwrap();
    let files = || {
        let mut found: Vec<_> = walk(dir.path());
        found.sort();
        found
    };
    let before = files();
    for operation in [Operation::Upsert, Operation::Delete, Operation::BulkInsert, Operation::InsertOverwrite] {
        let request =
            WriteRequest { dry_run: true, ..WriteRequest::new(operation, records(&[row(1, 0, 2), row(2, 1, 2)], 9)) };
        let report = writer.run(request).unwrap();
        assert!(report.dry_run && report.instant.is_none());
        if operation == Operation::Upsert {
            assert_eq!((report.inserted, report.updated), (1, 1));
        }
    }
    assert_eq!(files(), before);
}

fn walk(dir: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|p| if p.is_dir() { walk(&p) } else { vec![(p.clone(), p.metadata().unwrap().len())] }).collect()
}
