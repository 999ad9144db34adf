//! Writing the files of a commit: rows with targets, divided by group, each group on some thread.

use super::assign::Target;
use super::columns::{Routed, way};
use super::pool;
use super::spool::{BUCKETS, Spool};
use crate::error::{Error, Result};
use crate::record::Keyed;
use crate::slice::WrittenFile;
use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;

/// The rows of one group.
pub(super) struct GroupRows<'t> {
    /// The target's number.
    pub task: u32,
    pub target: &'t Target,
    /// Rows that are looked for in the group by their keys, each key once.
    pub merged: Option<GroupKeys>,
    /// Rows that are added as they are.
    pub appended: Option<GroupKeys>,
}

/// Rows, and whether the index knew the key of each.
pub(super) struct GroupKeys {
    pub rows: Keyed,
    pub known: BooleanArray,
}

/// The spool's buckets by target, so that all rows of one group come together.
pub(super) fn places_of(routed: &Routed) -> Result<Vec<u8>> {
    Ok(routed.targets()?.values().iter().map(|t| (*t as usize % BUCKETS) as u8).collect())
}

/// Hands every group with its rows to `write`, on several threads; results in no order that matters.
pub(super) fn by_group<'t>(
    spool: Spool,
    targets: &'t [Target],
    threads: usize,
    write: impl Fn(GroupRows<'t>) -> Result<Vec<WrittenFile>> + Sync,
) -> Result<Vec<WrittenFile>> {
    let mut written = Vec::new();
    for bucket in spool.into_buckets()? {
        let groups = divide(Routed::from_batch(bucket.load()?), targets)?;
        written.extend(pool::run(threads, groups, &write)?.into_iter().flatten());
    }
    Ok(written)
}

/// The rows of each group, largest group first, so that threads end together.
fn divide(routed: Routed, targets: &[Target]) -> Result<Vec<GroupRows<'_>>> {
    let of_row = routed.targets()?.values().clone();
    let ways = routed.ways()?.clone();
    let mut order: Vec<u32> = (0..of_row.len() as u32).collect();
    order.sort_by_key(|row| of_row.get(*row as usize).copied());
    let batch = routed.into_batch();
    let mut groups = Vec::new();
    for rows in order.chunk_by(|a, b| of_row.get(*a as usize) == of_row.get(*b as usize)) {
        let task = rows.first().and_then(|r| of_row.get(*r as usize)).copied().unwrap_or_default();
        let target = targets.get(task as usize).ok_or_else(|| Error::internal("rows without a target"))?;
        let (merged, appended) = rows.iter().partition(|row| ways.value(**row as usize) == way::MERGE);
        let (merged, appended) = (taken(&batch, merged)?, taken(&batch, appended)?);
        groups.push((rows.len(), GroupRows { task, target, merged, appended }));
    }
    groups.sort_by_key(|(rows, _)| std::cmp::Reverse(*rows));
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

fn taken(batch: &RecordBatch, rows: Vec<u32>) -> Result<Option<GroupKeys>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let taken = take_record_batch(batch, &UInt32Array::from(rows))
        .map_err(|e| Error::internal(format!("rows could not be taken: {e}")))?;
    let routed = Routed::from_batch(taken);
    Ok(Some(GroupKeys { rows: routed.keyed()?, known: routed.known()?.clone() }))
}
