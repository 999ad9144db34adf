//! From incoming rows to rows with targets: duplicates merged, keys looked up, new rows assigned.

use super::assign::Assigner;
use super::columns::{Routed, way};
use crate::error::{Error, Result};
use crate::index::{Index, Key, Location};
use crate::record::Keyed;
use crate::table::Snapshot;
use arrow::array::{Array, BooleanArray, StringArray, UInt32Array};
use arrow::compute::take_record_batch;
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
    pub assigner: &'r mut Assigner<'a>,
    pub moving: Moving,
    pub counts: Counts,
}

/// One row's fate.
#[derive(Clone, Copy)]
struct Fate {
    row: u32,
    target: u32,
    delete: bool,
    /// The partition of this row's key from now on, by the row's location.
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
        let mut fates = Vec::with_capacity(keys.len());
        for (row, (key, location)) in (0_u32..).zip(keys.iter().zip(&found)) {
            let delete = keyed.deletes.as_ref().is_some_and(|d| d.value(row as usize));
            self.decide(row, key, location.as_ref(), delete, &mut fates)?;
        }
        apply(keyed, &found, &fates)
    }

    fn decide(
        &mut self,
        row: u32,
        key: &Key<'_>,
        found: Option<&Location>,
        delete: bool,
        fates: &mut Vec<Fate>,
    ) -> Result<()> {
        match found {
            None if delete => self.counts.missed += 1,
            None => fates.push(Fate { row, target: self.assigner.insert(key)?, delete, stays: false }),
            Some(at) if *at.partition == *key.partition => {
                fates.push(Fate { row, target: self.assigner.located(at)?, delete, stays: false });
            }
            Some(at) if delete || self.moving == Moving::Stay => {
                fates.push(Fate { row, target: self.assigner.located(at)?, delete, stays: true });
            }
            Some(at) => {
                self.counts.moved += 1;
                fates.push(Fate { row, target: self.assigner.located(at)?, delete: true, stays: true });
                fates.push(Fate { row, target: self.assigner.insert(key)?, delete, stays: false });
            }
        }
        Ok(())
    }
}

/// Gives every row its group without looking keys up: they are added as they are.
pub(super) fn append(assigner: &mut Assigner<'_>, keyed: &Keyed) -> Result<Routed> {
    let targets = keys_of(keyed).iter().map(|key| assigner.insert(key)).collect::<Result<Vec<u32>>>()?;
    let ways = vec![way::APPEND; targets.len()];
    Routed::new(keyed, targets, ways)
}

/// The keys of all rows.
pub(super) fn keys_of(keyed: &Keyed) -> Vec<Key<'_>> {
    let rows = 0..keyed.keys.len();
    rows.map(|row| Key { partition: keyed.partitions.value(row), key: keyed.keys.value(row) }).collect()
}

fn apply(keyed: &Keyed, found: &[Option<Location>], fates: &[Fate]) -> Result<Routed> {
    let partition_of = |fate: &Fate| match found.get(fate.row as usize) {
        Some(Some(at)) if fate.stays => at.partition.clone(),
        _ => Arc::from(keyed.partitions.value(fate.row as usize)),
    };
    let partitions = StringArray::from_iter_values(fates.iter().map(|f| partition_of(f).to_string()));
    let deletes = BooleanArray::from_iter(fates.iter().map(|f| Some(f.delete)));
    let identity = fates.len() == keyed.keys.len() && (0_u32..).zip(fates).all(|(row, f)| f.row == row);
    let (rows, keys) = if identity {
        (keyed.rows.clone(), keyed.keys.clone())
    } else {
        let rows = UInt32Array::from_iter_values(fates.iter().map(|f| f.row));
        let taken = take_record_batch(&keyed.rows, &rows)
            .map_err(|e| Error::internal(format!("rows could not be taken: {e}")))?;
        let keys = fates.iter().map(|f| keyed.keys.value(f.row as usize));
        (taken, StringArray::from_iter_values(keys))
    };
    let routed = Keyed { rows, keys, partitions, deletes: (deletes.true_count() > 0).then_some(deletes) };
    Routed::new(&routed, fates.iter().map(|f| f.target).collect(), vec![way::MERGE; fates.len()])
}
