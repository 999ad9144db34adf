//! Several writers at once on one table: what is acknowledged is there, once, and the later commit stands.

use super::rows::{self, Row, keyed, records, row};
use super::tables::{Setup, open};
use hudifs::ErrorKind;
use hudifs::write::{IndexKind, Operation, WriteRequest, Writer};
use std::collections::BTreeMap;
use std::sync::Mutex;

const WRITERS: u32 = 4;
const COMMITS: u32 = 6;
/// Tries of one request; a writer that always meets others gives up.
const TRIES: u32 = 300;

/// Every writer upserts rows of few keys, so that they meet: in groups that exist, and in keys that are new to all of them.
fn meet(setup: Setup) {
    let (dir, first) = setup.create();
    first.run(WriteRequest::new(Operation::Upsert, records(&[row(0, 0, 1)], 9))).unwrap();
    let acknowledged: Mutex<BTreeMap<String, Vec<Row>>> = Mutex::default();
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (dir, acknowledged) = (&dir, &acknowledged);
            scope.spawn(move || {
                let writer = Writer::open(open(dir), setup.options()).unwrap();
                for commit in 0..COMMITS {
                    // Revisions only grow in a writer; between writers the instants decide.
                    let rows: Vec<Row> = (0..5).map(|n| (commit * 3 + n) % 20).map(|id| row(id, id % 2, 2)).collect();
                    let rows: Vec<Row> = rows
                        .into_iter()
                        .map(|r| Row { note: Some(format!("writer {number} {commit}")), ..r })
                        .collect();
                    let instant = upsert(&writer, &rows);
                    acknowledged.lock().unwrap().insert(instant, rows);
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    assert_eq!(acknowledged.len(), (WRITERS * COMMITS) as usize);
    let order: Vec<(String, String)> =
        acknowledged.iter().map(|(i, rows)| (i.clone(), rows[0].note.clone().unwrap())).collect();
    let mut wanted = keyed(vec![row(0, 0, 1)]);
    for rows in acknowledged.into_values() {
        wanted.extend(keyed(rows));
    }
    let writer = Writer::open(open(&dir), setup.options()).unwrap();
    let order: Vec<String> = order.iter().map(|(i, n)| format!("{i} {n}")).collect();
    let timeline: Vec<String> =
        writer.table().snapshot().timeline().instants().iter().map(|i| format!("{i} {:?}", i.completion)).collect();
    let merged = keyed(setup.merged(&writer));
    assert_eq!(merged, wanted, "{setup:?}: {order:#?} {timeline:#?}");
    if !setup.merge_on_read {
        assert_eq!(keyed(rows::read_optimized(&writer)), wanted, "{setup:?}");
    }
}

fn upsert(writer: &Writer, rows: &[Row]) -> String {
    for _ in 0..TRIES {
        match writer.run(WriteRequest::new(Operation::Upsert, records(rows, 9))) {
            Ok(report) => return report.instant.unwrap(),
            Err(e) if e.kind() == ErrorKind::Conflict => assert!(e.hint().is_some(), "{e}"),
            Err(e) => panic!("{e}"),
        }
    }
    panic!("no try of {TRIES} went through");
}

#[test]
fn writers_that_meet_leave_a_serial_order() {
    for setup in [
        Setup::COW6,
        Setup { index: IndexKind::Simple, metadata: true, ..Setup::MOR6 },
        Setup { index: IndexKind::RecordLevel, metadata: true, ..Setup::MOR9 },
        Setup { index: IndexKind::Bucket, ..Setup::MOR9 },
    ] {
        meet(setup);
    }
}
