//! Random histories of operations against a map of keys: after each one the table holds what the map holds.

use super::rows::{self, Row, Rows};
use super::tables::Setup;
use hudifs::write::{IndexKind, Operation, WriteRequest};
use proptest::prelude::*;

/// One step of a history; ids are below [`IDS`], partitions below [`PARTS`].
#[derive(Clone, Debug)]
enum Step {
    Upsert(Vec<(u32, u32)>),
    Insert(Vec<u32>),
    BulkInsert(Vec<u32>),
    Delete(Vec<(u32, u32)>),
    DeletePartition(u32),
    Overwrite(Vec<(u32, u32)>),
    OverwriteTable(Vec<(u32, u32)>),
    Compact,
    Clean,
}

const IDS: u32 = 60;
const PARTS: u32 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pairs = || prop::collection::vec((0..IDS, 0..PARTS), 1..40);
    let step = prop_oneof![
        6 => pairs().prop_map(Step::Upsert),
        2 => prop::collection::vec(0..IDS, 1..20).prop_map(Step::Insert),
        2 => prop::collection::vec(0..IDS, 1..20).prop_map(Step::BulkInsert),
        4 => pairs().prop_map(Step::Delete),
        1 => (0..PARTS).prop_map(Step::DeletePartition),
        1 => pairs().prop_map(Step::Overwrite),
        1 => pairs().prop_map(Step::OverwriteTable),
        2 => Just(Step::Compact),
        1 => Just(Step::Clean),
    ];
    (pairs(), prop::collection::vec(step, 1..14))
        .prop_map(|(first, rest)| [Step::Upsert(first)].into_iter().chain(rest).collect())
}

/// The map, and what it takes to make up rows.
struct Model {
    rows: Rows,
    /// Keys are unique in the table: a key lives in one partition.
    global: bool,
    revision: i64,
    /// Ids of rows that are added without a lookup, so that none is there twice.
    fresh: u32,
}

impl Model {
    fn make(&mut self, pairs: &[(u32, u32)]) -> Vec<Row> {
        self.revision += 1;
        pairs.iter().map(|(id, part)| rows::row(*id, *part, self.revision)).collect()
    }

    fn make_fresh(&mut self, ids: &[u32]) -> Vec<Row> {
        self.revision += 1;
        let make = |id: &u32| {
            self.fresh += 1;
            rows::row(IDS + self.fresh, id % PARTS, self.revision)
        };
        ids.iter().map(make).collect()
    }

    fn put(&mut self, row: Row) {
        if self.global {
            self.rows.retain(|(_, id), _| *id != row.id);
        }
        self.rows.insert((row.part.clone(), row.id.clone()), row);
    }

    fn delete(&mut self, row: &Row) {
        match self.global {
            true => self.rows.retain(|(_, id), _| *id != row.id),
            false => drop(self.rows.remove(&(row.part.clone(), row.id.clone()))),
        }
    }

    /// Does the step to the map, and says what request does it to the table.
    fn apply(&mut self, step: &Step) -> Option<(Operation, Vec<Row>, Vec<String>)> {
        Some(match step {
            Step::Upsert(pairs) => {
                let rows = self.make(pairs);
                rows.iter().for_each(|r| self.put(r.clone()));
                (Operation::Upsert, rows, vec![])
            }
            Step::Insert(ids) | Step::BulkInsert(ids) => {
                let rows = self.make_fresh(ids);
                rows.iter().for_each(|r| self.put(r.clone()));
                let bulk = matches!(step, Step::BulkInsert(_));
                (if bulk { Operation::BulkInsert } else { Operation::Insert }, rows, vec![])
            }
            Step::Delete(pairs) => {
                let rows = self.make(pairs);
                rows.iter().for_each(|r| self.delete(r));
                (Operation::Delete, rows, vec![])
            }
            Step::DeletePartition(part) => {
                let part = format!("p{part}");
                self.rows.retain(|(p, _), _| *p != part);
                (Operation::DeletePartition, vec![], vec![part])
            }
            Step::Overwrite(pairs) => {
                let rows = self.distinct(pairs);
                self.rows.retain(|(p, _), _| rows.iter().all(|r| r.part != *p));
                // What an overwrite brings is added without a look at other partitions.
                rows.iter().for_each(|r| drop(self.rows.insert((r.part.clone(), r.id.clone()), r.clone())));
                (Operation::InsertOverwrite, rows, vec![])
            }
            Step::OverwriteTable(pairs) => {
                self.rows.clear();
                let rows = self.distinct(pairs);
                rows.iter().for_each(|r| self.put(r.clone()));
                (Operation::InsertOverwriteTable, rows, vec![])
            }
            Step::Compact | Step::Clean => return None,
        })
    }

    /// Rows with each key once, and where keys are unique in the table, none that another partition holds.
    fn distinct(&mut self, pairs: &[(u32, u32)]) -> Vec<Row> {
        let mut rows = self.make(pairs);
        rows.sort_by(|a, b| (&a.id, &a.part).cmp(&(&b.id, &b.part)));
        match self.global {
            true => {
                rows.dedup_by(|a, b| a.id == b.id);
                let held: Vec<String> = self.rows.keys().map(|(_, id)| id.clone()).collect();
                rows.retain(|r| !held.contains(&r.id));
            }
            false => rows.dedup_by(|a, b| (&a.id, &a.part) == (&b.id, &b.part)),
        }
        rows
    }
}

fn check(setup: &Setup, steps: &[Step]) {
    let (_dir, writer) = setup.create();
    let mut model = Model { rows: Rows::new(), global: setup.is_global(), revision: 0, fresh: 0 };
    for (number, step) in steps.iter().enumerate() {
        match model.apply(step) {
            Some((_, rows, partitions)) if rows.is_empty() && partitions.is_empty() => continue,
            Some((_, _, partitions)) if !partitions.is_empty() => {
                match writer.run(WriteRequest::delete_partitions(partitions)) {
                    // Nothing was ever written there.
                    Err(e) if e.kind() == hudifs::ErrorKind::NotFound => {}
                    other => drop(other.unwrap()),
                }
            }
            Some((operation, rows, _)) => {
                writer.run(WriteRequest::new(operation, rows::records(&rows, 7))).unwrap();
            }
            None if matches!(step, Step::Compact) => drop(writer.compact().unwrap()),
            None => drop(writer.clean().unwrap()),
        }
        let merged = rows::keyed(setup.merged(&writer));
        assert_eq!(merged, model.rows, "{setup:?} after step {number} of {steps:?}");
        if !setup.merge_on_read || matches!(step, Step::Compact) {
            let shown = rows::keyed(rows::read_optimized(&writer));
            assert_eq!(shown, model.rows, "{setup:?}, read optimized, after step {number} of {steps:?}");
        }
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    let index = prop::sample::select(vec![
        IndexKind::Bloom,
        IndexKind::GlobalBloom,
        IndexKind::Simple,
        IndexKind::GlobalSimple,
        IndexKind::Bucket,
        IndexKind::RecordLevel,
    ]);
    (any::<bool>(), prop::sample::select(vec![6_u8, 9]), index, any::<bool>()).prop_map(
        |(merge_on_read, version, index, metadata)| Setup {
            merge_on_read,
            version,
            index,
            metadata: metadata || index == IndexKind::RecordLevel,
            small_files: true,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn histories_equal_a_map_of_keys(setup in setups(), steps in steps()) {
        check(&setup, &steps);
    }
}
