//! What every kind of index must do, on copy-on-write and merge-on-read tables of both versions that are made here.

use super::{tag, truth};
use crate::write::rows::{self, Row, row};
use crate::write::tables::Setup;
use hudifs::index::{Key, open};
use hudifs::slice::read::slices_of;
use hudifs::write::{IndexKind, Operation, WriteRequest, Writer};
use std::collections::BTreeMap;

const KINDS: [IndexKind; 6] = [
    IndexKind::Bloom,
    IndexKind::GlobalBloom,
    IndexKind::Simple,
    IndexKind::GlobalSimple,
    IndexKind::Bucket,
    IndexKind::RecordLevel,
];

fn setups() -> impl Iterator<Item = Setup> {
    KINDS.into_iter().flat_map(|index| {
        [Setup::COW6, Setup::MOR6, Setup::COW9, Setup::MOR9].map(|setup| Setup {
            index,
            metadata: index == IndexKind::RecordLevel,
            ..setup
        })
    })
}

fn run(writer: &Writer, operation: Operation, rows: &[Row]) {
    let asked = rows.len() as u64;
    let report = writer.run(WriteRequest::new(operation, rows::records(rows, 9))).unwrap();
    assert_eq!(report.rows, asked);
}

fn made(ids: std::ops::Range<u32>, revision: i64) -> Vec<Row> {
    ids.map(|id| row(id, id % 3, revision)).collect()
}

/// The index against a read of the whole table.
fn check(setup: &Setup, writer: &Writer, step: &str) {
    let snapshot = writer.table().snapshot();
    let truth = truth(&snapshot);
    let mut keys: Vec<(String, String)> = truth.keys().cloned().collect();
    let held = keys.len();
    keys.extend([("p0".to_owned(), "absent".to_owned()), ("no such partition".to_owned(), "absent".to_owned())]);
    // The other way round too, and each twice: answers are in the order of what was asked.
    keys.extend(keys.clone().into_iter().rev());
    let found = tag(&snapshot, setup.index, writer.options(), &keys).unwrap();
    assert_eq!(found.len(), keys.len());
    for ((partition, key), found) in keys.iter().zip(&found) {
        match truth.get(&(partition.clone(), key.clone())) {
            Some(group) => {
                let wanted = Some((partition.clone(), group.clone()));
                assert_eq!(found, &wanted, "{setup:?} {step}: {key} in {partition}");
            }
            // A bucket index says where the key belongs.
            None if setup.index == IndexKind::Bucket => {}
            None => assert_eq!(found, &None, "{setup:?} {step}: {key} in {partition}"),
        }
    }
    assert!(held > 0);
    assert_eq!(tag(&snapshot, setup.index, writer.options(), &[]).unwrap(), []);
    let one = &keys[..1];
    assert_eq!(tag(&snapshot, setup.index, writer.options(), one).unwrap().len(), 1);
}

/// Partition and key to file group, of keys that are in both.
fn moved(before: &BTreeMap<(String, String), String>, after: &BTreeMap<(String, String), String>) -> usize {
    before.iter().filter(|(key, group)| after.get(key).is_some_and(|g| g != *group)).count()
}

#[test]
fn every_kind_finds_what_is_there_through_a_table_s_life() {
    for setup in setups() {
        let (_dir, writer) = setup.create();
        assert_eq!(tag(&writer.table().snapshot(), setup.index, writer.options(), &[]).unwrap(), []);
        run(&writer, Operation::Upsert, &made(0..60, 1));
        check(&setup, &writer, "inserted");
        let placed = truth(&writer.table().snapshot());
        run(&writer, Operation::Upsert, &made(20..80, 2));
        check(&setup, &writer, "updated");
        run(&writer, Operation::Delete, &made(30..40, 3));
        let deleted = truth(&writer.table().snapshot());
        assert_eq!(deleted.len(), 70, "{setup:?}");
        run(&writer, Operation::Upsert, &made(35..36, 4));
        check(&setup, &writer, "one key inserted again");
        if setup.merge_on_read {
            writer.compact().unwrap();
            check(&setup, &writer, "compacted");
            // Base files know now what logs had deleted.
            let gone: Vec<(String, String)> = made(30..33, 0).into_iter().map(|r| (r.part, r.id)).collect();
            let found = tag(&writer.table().snapshot(), setup.index, writer.options(), &gone).unwrap();
            assert!(setup.index == IndexKind::Bucket || found.iter().all(Option::is_none), "{setup:?}: {found:?}");
        }
        run(&writer, Operation::Upsert, &made(0..80, 5));
        check(&setup, &writer, "all updated");
        let last = truth(&writer.table().snapshot());
        // But for those that were deleted meanwhile, which begin anew.
        let kept = placed.into_iter().filter(|((_, key), _)| !("key-00030".."key-00040").contains(&key.as_str()));
        assert_eq!((last.len(), moved(&kept.collect(), &last)), (80, 0), "{setup:?}: a key keeps its file group");
    }
}

#[test]
fn a_key_in_two_partitions_is_two_rows_unless_the_index_is_global() {
    for setup in setups() {
        let (_dir, writer) = setup.create();
        run(&writer, Operation::Upsert, &[row(1, 0, 1), row(2, 0, 1)]);
        run(&writer, Operation::Upsert, &[row(1, 1, 2)]);
        let held: Vec<(String, String)> = truth(&writer.table().snapshot()).into_keys().collect();
        let key = |part: &str, id: u32| (part.to_owned(), format!("key-{id:05}"));
        if setup.is_global() {
            assert_eq!(held, [key("p0", 2), key("p1", 1)], "{setup:?}");
            // Wherever it is asked for, it is where it moved to.
            let asked = [key("p0", 1), key("p1", 1), key("p2", 1)];
            let found = tag(&writer.table().snapshot(), setup.index, writer.options(), &asked).unwrap();
            let partitions: Vec<_> = found.iter().map(|l| l.as_ref().unwrap().0.as_str()).collect();
            assert_eq!(partitions, ["p1", "p1", "p1"], "{setup:?}");
        } else {
            assert_eq!(held, [key("p0", 1), key("p0", 2), key("p1", 1)], "{setup:?}");
        }
        check(&setup, &writer, "the same key in another partition");
    }
}

/// Nothing of a write that did not complete is seen, whatever files it left.
#[test]
fn what_is_pending_is_not_seen() {
    for setup in setups() {
        let (dir, writer) = setup.create();
        run(&writer, Operation::Upsert, &made(0..30, 1));
        let snapshot = writer.table().snapshot();
        let slice = slices_of(&snapshot).unwrap().remove(0);
        let time = "20980101000000000";
        let action = if setup.merge_on_read { "deltacommit" } else { "commit" };
        let folder = dir.path().join(snapshot.config().timeline_folder());
        std::fs::write(folder.join(format!("{time}.{action}.requested")), b"").unwrap();
        let inflight =
            if setup.merge_on_read { format!("{time}.deltacommit.inflight") } else { format!("{time}.inflight") };
        let inflight = if setup.version >= 8 { format!("{time}.{action}.inflight") } else { inflight };
        std::fs::write(folder.join(inflight), b"").unwrap();
        // A new version of a group, and a group of its own, in a partition that has no such rows.
        let part = dir.path().join(&slice.partition);
        let base = std::fs::read(part.join(&slice.base_file.as_ref().unwrap().name)).unwrap();
        std::fs::write(part.join(format!("{}_9-9-9_{time}.parquet", slice.file_id)), &base).unwrap();
        let other = format!("00000000-1111-4111-8111-111111111111-0_9-9-9_{time}.parquet");
        std::fs::write(part.join(other), &base).unwrap();
        writer.table().refresh().unwrap();
        check(&setup, &writer, "with a pending write");
    }
}

#[test]
fn keys_that_are_no_keys_are_refused() {
    for setup in setups() {
        let (_dir, writer) = setup.create();
        let mut nameless = row(1, 0, 1);
        nameless.id = String::new();
        let failed = writer.run(WriteRequest::new(Operation::Upsert, rows::records(&[nameless], 9))).unwrap_err();
        assert_eq!(failed.kind(), hudifs::ErrorKind::Invalid, "{setup:?}: {failed}");
        assert!(writer.table().snapshot().instant().is_none(), "{setup:?}: nothing was committed");
    }
}

#[test]
fn a_bucket_is_a_function_of_the_key() {
    for setup in setups().filter(|s| s.index == IndexKind::Bucket) {
        let (_dir, writer) = setup.create();
        // The sum of a key's digits decides between three buckets: partitions must not go by it.
        let spread = |ids: std::ops::Range<u32>| ids.map(|id| row(id, id / 7 % 3, 1)).collect::<Vec<_>>();
        run(&writer, Operation::Upsert, &spread(0..60));
        run(&writer, Operation::Insert, &spread(60..90));
        let snapshot = writer.table().snapshot();
        let groups = slices_of(&snapshot).unwrap();
        assert_eq!(groups.len(), 9, "{setup:?}: three partitions of three buckets");
        for group in &groups {
            assert!(group.file_id[..8].parse::<u32>().unwrap() < 3, "{}", group.file_id);
        }
        let index = open(setup.index, snapshot.config(), &writer.options().settings, 1).unwrap();
        for ((partition, key), group) in truth(&snapshot) {
            let placed = index.place(&Key { partition: &partition, key: &key }).unwrap().unwrap();
            assert_eq!(placed[..8], group[..8], "{key}");
        }
        // Replaced, a bucket gets another group, and so does the next writer that knows nothing of it.
        let ids = |writer: &Writer| -> std::collections::BTreeSet<String> {
            slices_of(&writer.table().snapshot()).unwrap().into_iter().map(|s| s.partition + "/" + &s.file_id).collect()
        };
        let first = ids(&writer);
        assert!(first.iter().all(|id| id.ends_with("-0000-0000-0000-000000000000-0")), "{first:?}");
        writer.run(WriteRequest::delete_partitions(vec!["p0".to_owned()])).unwrap();
        run(&writer, Operation::Upsert, &spread(0..60));
        let second = ids(&writer);
        assert_eq!((second.len(), second.intersection(&first).count()), (9, 6), "{second:?}");
        check(&setup, &writer, "after a partition was deleted");
        let odd = Row { id: "urn:x:1".to_owned(), ..row(1, 0, 1) };
        let failed = writer.run(WriteRequest::new(Operation::Upsert, rows::records(&[odd], 9))).unwrap_err();
        assert!(failed.to_string().contains("urn:x:1"), "{failed}");
    }
}

#[test]
fn another_kind_than_the_table_s_is_refused() {
    let (dir, writer) = Setup::COW6.create();
    run(&writer, Operation::Upsert, &made(0..3, 1));
    let mut options = writer.options().clone();
    options.index = Some(IndexKind::Simple);
    let storage = crate::write::tables::open(&dir);
    let refused = Writer::open(storage, options)
        .and_then(|w| w.run(WriteRequest::new(Operation::Upsert, rows::records(&made(0..3, 2), 9))))
        .unwrap_err();
    assert_eq!(refused.kind(), hudifs::ErrorKind::Invalid);
    assert!(refused.to_string().contains("BLOOM"), "{refused}");
}
