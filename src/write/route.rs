//! From incoming rows to rows with targets: keys looked up, new rows assigned, rows that move to another partition doubled.

use super::assign::Assigner;
use super::columns::{Routed, way};
use super::moves::{self, Standing};
use crate::error::{Error, Result};
use crate::index::{Index, Key, Location};
use crate::record::{Keyed, MergeRules, TableSchema};
use crate::table::Snapshot;
use arrow::array::{Array, BooleanArray, StringArray, UInt32Array};
use std::collections::HashMap;
use std::sync::Arc;

/// What becomes of a row whose key lives in another partition (global indexes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moving {
    /// The old row is deleted and the new one inserted where it says it belongs.
    Follow,
    /// The row stays where its key is.
    Stay,
}

/// What routing counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Deletes of keys that are not there.
    pub missed: u64,
    /// Rows whose key changed its partition.
    pub moved: u64,
}

/// Rows of one bucket on their way; keys are distinct.
pub(super) struct Router<'r, 'a> {
    pub snapshot: &'r Snapshot,
    pub index: &'r dyn Index,
    pub rules: &'r MergeRules,
    pub schema: &'r TableSchema,
    pub assigner: &'r mut Assigner<'a>,
    pub moving: Moving,
    /// Bytes of log records that may be held.
    pub memory: usize,
    pub counts: Counts,
}

/// One row's fate.
#[derive(Clone, Copy)]
struct Fate {
    row: u32,
    target: u32,
    delete: bool,
    /// The index knows the key there.
    known: bool,
    /// The row's partition from now on is that of its location.
    stays: bool,
}

impl Router<'_, '_> {
    /// Looks the keys up and gives every row its group. Deletes of keys that are not there are left out; a row that moves to
    /// another partition becomes two.
    pub fn route(&mut self, keyed: &Keyed) -> Result<Routed> {
        let keys: Vec<Key<'_>> = keys_of(keyed);
        let found = self.index.tag(self.snapshot, &keys)?;
        if found.len() != keys.len() {
            return Err(Error::internal("an index that answers for other keys than it was asked for"));
        }
        let standing = self.standing(keyed, &keys, &found)?;
        let mut fates = Vec::with_capacity(keys.len());
        for (row, (key, location)) in (0_u32..).zip(keys.iter().zip(&found)) {
            let delete = keyed.deletes.as_ref().is_some_and(|d| d.value(row as usize));
            let standing = standing.get(&row).copied().unwrap_or(Standing::Yields);
            self.decide(row, key, location.as_ref(), delete, standing, &mut fates)?;
        }
        apply(keyed, &found, &fates)
    }

    /// Of rows that change their partition: whether the row that is there yields.
    fn standing(&self, keyed: &Keyed, keys: &[Key<'_>], found: &[Option<Location>]) -> Result<HashMap<u32, Standing>> {
        if self.moving == Moving::Stay {
            return Ok(HashMap::new());
        }
        let moving = (0_u32..).zip(keys.iter().zip(found)).filter_map(|(row, (key, location))| {
            location.as_ref().filter(|at| *at.partition != *key.partition).map(|at| (row, at))
        });
        moves::standing(self.snapshot, self.schema, self.rules, keyed, moving.collect(), self.memory)
    }

    fn decide(
        &mut self,
        row: u32,
        key: &Key<'_>,
        found: Option<&Location>,
        delete: bool,
        standing: Standing,
        fates: &mut Vec<Fate>,
    ) -> Result<()> {
        match found {
            None if delete => self.counts.missed += 1,
            None => fates.push(Fate { row, target: self.assigner.insert(key)?, delete, known: false, stays: false }),
            Some(at) if *at.partition == *key.partition => {
                fates.push(Fate { row, target: self.assigner.located(at)?, delete, known: true, stays: false });
            }
            Some(at) if delete || self.moving == Moving::Stay => {
                fates.push(Fate { row, target: self.assigner.located(at)?, delete, known: true, stays: true });
            }
            Some(at) => match standing {
                Standing::Wins => {}
                Standing::Absent => {
                    fates.push(Fate { row, target: self.assigner.insert(key)?, delete, known: false, stays: false });
                }
                Standing::Yields => {
                    self.counts.moved += 1;
                    let old = self.assigner.located(at)?;
                    fates.push(Fate { row, target: old, delete: true, known: true, stays: true });
                    fates.push(Fate { row, target: self.assigner.insert(key)?, delete, known: false, stays: false });
                }
            },
        }
        Ok(())
    }
}

/// Gives every row its group without looking keys up: they are added as they are.
pub(super) fn append(assigner: &mut Assigner<'_>, keyed: &Keyed) -> Result<Routed> {
    let targets = keys_of(keyed).iter().map(|key| assigner.insert(key)).collect::<Result<Vec<u32>>>()?;
    let rows = targets.len();
    Routed::new(keyed, targets, vec![way::APPEND; rows], vec![false; rows])
}

/// The keys of all rows.
pub(super) fn keys_of(keyed: &Keyed) -> Vec<Key<'_>> {
    let rows = 0..keyed.keys.len();
    rows.map(|row| Key { partition: keyed.partitions.value(row), key: keyed.keys.value(row) }).collect()
}

fn apply(keyed: &Keyed, found: &[Option<Location>], fates: &[Fate]) -> Result<Routed> {
    let identity = fates.len() == keyed.keys.len() && (0_u32..).zip(fates).all(|(row, f)| f.row == row);
    let mut rows = match identity {
        true => keyed.clone(),
        false => keyed.take(&UInt32Array::from_iter_values(fates.iter().map(|f| f.row)))?,
    };
    if fates.iter().any(|f| f.stays) {
        let partition_of = |fate: &Fate| match found.get(fate.row as usize) {
            Some(Some(at)) if fate.stays => at.partition.clone(),
            _ => Arc::from(keyed.partitions.value(fate.row as usize)),
        };
        rows.partitions = StringArray::from_iter_values(fates.iter().map(|f| partition_of(f).to_string()));
    }
    let deletes = BooleanArray::from_iter(fates.iter().map(|f| Some(f.delete)));
    rows.deletes = (deletes.true_count() > 0).then_some(deletes);
    let targets = fates.iter().map(|f| f.target).collect();
    let known = fates.iter().map(|f| f.known).collect();
    Routed::new(&rows, targets, vec![way::MERGE; fates.len()], known)
}
