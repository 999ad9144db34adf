//! Reading a whole table as of a snapshot, slice by slice on several threads.

use super::{ReadOptions, SliceReader};
use crate::error::{Error, Result};
use crate::record::{MergeRules, TableSchema, schema};
use crate::slice::pool;
use crate::table::{FileSlice, Snapshot};
use arrow::array::RecordBatch;

/// The slices of all partitions.
pub fn slices_of(snapshot: &Snapshot) -> Result<Vec<FileSlice>> {
    let mut slices = Vec::new();
    for partition in snapshot.partitions()?.iter() {
        slices.extend(snapshot.file_slices(partition)?);
    }
    Ok(slices)
}

/// Hands every batch of the table's rows to `visit`, with meta columns, in no order; from up to `threads` threads at a time,
/// each of which holds `memory` bytes of log records at most, and their keys. Ends at the first failure.
pub fn for_each_batch(
    snapshot: &Snapshot,
    threads: usize,
    memory: usize,
    visit: impl Fn(&FileSlice, RecordBatch) -> Result<()> + Sync,
) -> Result<()> {
    let slices = slices_of(snapshot)?;
    if slices.is_empty() {
        return Ok(());
    }
    let schema = schema_of(snapshot)?;
    let rules = MergeRules::new(snapshot.config())?;
    let options = ReadOptions::of_snapshot(snapshot, memory);
    let read = |slice: FileSlice| -> Result<()> {
        let storage = &**snapshot.storage();
        for batch in SliceReader::open(storage, snapshot.config(), &slice, &schema, &rules, &options)? {
            visit(&slice, batch?)?;
        }
        Ok(())
    };
    pool::run(threads, slices, read).map(drop)
}

/// The table's schema as of a snapshot.
pub(super) fn schema_of(snapshot: &Snapshot) -> Result<TableSchema> {
    let found = schema::of_snapshot(snapshot)?;
    found.ok_or_else(|| Error::corrupt("the table has files, and no commit or property that tells its schema"))
}
