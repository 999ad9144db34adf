//! What a commit makes sure of under the lock, where others have committed since its plan.
//!
//! File groups are compared by [`super::conflict`]. Two things escape it, and are looked at here: a key that was new to both
//! writers, and that each put into a group of its own, would be there twice; and a write that was brought to the columns of
//! before would take a column away that another has added.

use super::columns::Routed;
use super::plan::WritePlan;
use super::session::Critical;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::index::{IndexKind, Key};
use crate::record::schema;
use crate::table::{Snapshot, Table};
use arrow::array::{Array, StringArray, UInt32Array};

/// The keys that a write found to be new.
#[derive(Debug, Default)]
pub(super) struct NewKeys {
    keys: Vec<(StringArray, StringArray)>,
    bytes: u64,
    /// More than may be held: any other commit of new rows is in conflict then.
    overflowed: bool,
}

impl NewKeys {
    /// Takes the new keys of rows that were looked up; holds up to `budget` bytes of them.
    pub fn add(&mut self, routed: &Routed, budget: u64) -> Result<()> {
        let (keyed, known) = (routed.keyed()?, routed.known()?);
        let is_new = |row: &u32| {
            let row = *row as usize;
            !known.value(row) && !keyed.deletes.as_ref().is_some_and(|d| d.value(row))
        };
        let rows: Vec<u32> = (0..known.len() as u32).filter(is_new).collect();
        if rows.is_empty() || self.overflowed {
            return Ok(());
        }
        let taken = keyed.take(&UInt32Array::from(rows))?;
        let size = |a: &StringArray| a.value_data().len() as u64 + 4 * a.len() as u64;
        self.bytes += size(&taken.keys) + size(&taken.partitions);
        self.keys.push((taken.keys, taken.partitions));
        if self.bytes > budget {
            self.keys.clear();
            self.overflowed = true;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.overflowed
    }
}

/// Makes sure that what was planned still holds. Costs nothing where nobody has committed since.
pub(super) fn check(table: &Table, plan: &WritePlan, new: &NewKeys, critical: &Critical) -> Result<()> {
    let writes = |t: &crate::timeline::Timeline| t.writes().map(|i| i.requested).collect::<Vec<InstantTime>>();
    let planned = writes(plan.snapshot.timeline());
    let since: Vec<InstantTime> =
        writes(critical.timeline()).into_iter().filter(|t| planned.binary_search(t).is_err()).collect();
    let Some(newest) = since.last().copied() else { return Ok(()) };
    table.refresh()?;
    let now = table.snapshot();
    let columns = schema::of_snapshot(&now)?;
    if columns.as_ref().map(|s| s.avro()) != plan.schema.as_ref().map(|s| s.avro()) {
        return Err(conflict(newest, "changed the table's columns"));
    }
    // A bucket has one group, so that two writers of a new key meet there.
    if new.is_empty() || plan.kind == IndexKind::Bucket {
        return Ok(());
    }
    if new.overflowed {
        return Err(conflict(newest, "may have added the same keys, which are too many to be looked up again"));
    }
    keys_are_new(&now, plan, new, newest)
}

fn keys_are_new(now: &Snapshot, plan: &WritePlan, new: &NewKeys, newest: InstantTime) -> Result<()> {
    for (keys, partitions) in &new.keys {
        let pairs = (0..keys.len()).map(|row| Key { partition: partitions.value(row), key: keys.value(row) });
        let pairs: Vec<Key<'_>> = pairs.collect();
        let found = plan.index.tag(now, &pairs)?;
        if let Some((key, Some(at))) = pairs.iter().zip(found).find(|(_, at)| at.is_some()) {
            let error = conflict(newest, &format!("added the key {:?} too", key.key));
            return Err(error.in_partition(&*at.partition));
        }
    }
    Ok(())
}

fn conflict(instant: InstantTime, what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("another writer committed {instant} meanwhile and {what}"))
        .at_instant(instant)
        .with_hint("send the request again: it will see that commit")
}
