//! Rows whose key lives in another partition: does the row that is there yield?
//!
//! Where the later write always wins it does, unread. Where ordering values decide, the groups that hold such keys are read:
//! an older incoming row must not move anything, and a key that the index names but the group does not hold moves nothing either.

use crate::error::Result;
use crate::index::Location;
use crate::record::{Keyed, MergeMode, MergeRules, TableSchema};
use crate::slice::read::{ReadOptions, SliceReader};
use crate::storage::TablePath;
use crate::table::Snapshot;
use arrow::array::{Array, AsArray};
use std::collections::{BTreeMap, HashMap};

/// What is there of a key that a row wants to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A row that gives way.
    Yields,
    /// A row that stays: the incoming one is older.
    Wins,
    /// Nothing: the index speaks of a row that is not there.
    Absent,
}

/// What is there for each of the `moving` rows.
pub(super) fn standing(
    snapshot: &Snapshot,
    schema: &TableSchema,
    rules: &MergeRules,
    incoming: &Keyed,
    moving: Vec<(u32, &Location)>,
    memory: usize,
) -> Result<HashMap<u32, Standing>> {
    if rules.mode() == MergeMode::CommitTime {
        return Ok(HashMap::new());
    }
    let mut groups: BTreeMap<(&str, &str), HashMap<&str, u32>> = BTreeMap::new();
    for (row, at) in &moving {
        let keys = groups.entry((&at.partition, &at.file_id)).or_default();
        keys.insert(incoming.keys.value(*row as usize), *row);
    }
    let mut standing: HashMap<u32, Standing> = moving.iter().map(|(row, _)| (*row, Standing::Absent)).collect();
    let orders = rules.ordering(&incoming.rows)?;
    for ((partition, file_id), keys) in groups {
        let slices = snapshot.file_slices(&TablePath::parse(partition)?)?;
        let Some(slice) = slices.iter().find(|s| s.file_id == file_id) else { continue };
        let options = ReadOptions::of_snapshot(snapshot, memory);
        let storage = &**snapshot.storage();
        for batch in SliceReader::open(storage, snapshot.config(), slice, schema, rules, &options)? {
            let batch = batch?;
            let Some(names) = batch.column_by_name("_hoodie_record_key").and_then(|c| c.as_string_opt::<i32>()) else {
                continue;
            };
            let held = rules.ordering(&batch)?;
            for at in (0..names.len()).filter(|at| names.is_valid(*at)) {
                let Some(&row) = keys.get(names.value(at)) else { continue };
                let deletes = incoming.deletes.as_ref().is_some_and(|d| d.value(row as usize));
                let wins = rules.incoming_row_wins((&held, at), (&orders, row as usize), deletes);
                standing.insert(row, if wins { Standing::Yields } else { Standing::Wins });
            }
        }
    }
    Ok(standing)
}
