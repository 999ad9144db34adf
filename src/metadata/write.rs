//! Keeping the metadata table in step with the data table.
//!
//! [`MetadataWriter::update`] puts the records of one data table instant into the metadata table, as a delta commit of the same
//! instant, **before** that instant completes on the data table: readers ignore it until then. Every action that changes files
//! must come by here. What is left of an earlier attempt of the instant is rolled back first.
//!
//! A partition of the metadata table that the data table calls ready, or being built, is written to; one that this build
//! cannot maintain makes [`MetadataWriter::open`] refuse the table, because a stale index loses rows for every reader.
//! Format: docs/format.md, "Metadata table".

mod changes;
pub(super) mod keys;
mod partition_stats;
mod plan;
pub(super) mod record;
pub(super) mod schema;
mod setup;

pub use changes::{AddedFile, Changes, KeysOfGroup, PartitionChanges};

use super::ColumnRange;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::sync::Arc;

/// How the metadata table is written.
#[derive(Clone, Debug)]
pub struct MetadataOptions {
    /// Threads for encoding, lookups and compaction.
    pub threads: usize,
    /// Delta commits after which the metadata table is compacted.
    pub compact_after: usize,
    /// Drop indexes that cannot be maintained here, instead of refusing the table.
    pub drop_unsupported_index: bool,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        MetadataOptions { threads: 2, compact_after: 10, drop_unsupported_index: false }
    }
}

/// The partitions that a new metadata table gets beside `files`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataKinds {
    /// Column ranges of files, and of partitions where the table has any: the columns to be indexed, empty for none.
    pub column_stats: Vec<String>,
    /// The index of record keys.
    pub record_index: Option<RecordIndexShape>,
}

/// How many file groups a record index gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordIndexShape {
    /// At least.
    pub min_groups: u32,
    /// At most.
    pub max_groups: u32,
}

impl Default for RecordIndexShape {
    fn default() -> Self {
        RecordIndexShape { min_groups: 10, max_groups: 10_000 }
    }
}

/// What only the data files themselves tell, for indexes that are built over what is there.
pub trait DataFiles: Send + Sync {
    /// The ranges of the columns of a base file, or of a log file.
    fn columns(&self, partition: &str, name: &str, size: u64, columns: &[String]) -> Result<Vec<ColumnRange>>;

    /// The keys of the rows that a file group has, log files merged: `logs` are those on top of the base file.
    fn keys(&self, partition: &str, file_id: &str, base: Option<&str>, logs: &[String]) -> Result<Vec<String>>;
}

/// Writes the metadata table of one table, as of one state of the data table's timeline.
#[derive(Debug)]
pub struct MetadataWriter {
    storage: Arc<dyn Storage>,
    data: Timeline,
    options: MetadataOptions,
}

impl MetadataWriter {
    /// Opens the metadata table of the data table whose timeline is given: one that was loaded under the table's lock, after
    /// the instant to be written had begun. `None` if the table has no metadata table, and nothing need be done.
    ///
    /// `Unsupported` if it has partitions that cannot be maintained, unless the options say to drop them, which is done here.
    pub fn open(
        storage: Arc<dyn Storage>,
        data: &Timeline,
        options: MetadataOptions,
    ) -> Result<Option<MetadataWriter>> {
        if !super::MetadataLister::is_available(data) {
            return Ok(None);
        }
        Ok(Some(MetadataWriter { storage, data: data.clone(), options }))
    }

    /// Makes the metadata table of a table from what the table holds: nothing, for one that was just created; else from a
    /// listing of storage, the footers of its base files, and their keys. `inflight` is the instant of the caller's own write,
    /// if it has begun. Then names its partitions in the table's properties; the caller must load them again.
    pub fn bootstrap(
        _storage: &Arc<dyn Storage>,
        _data: &Timeline,
        _kinds: &MetadataKinds,
        _inflight: Option<InstantTime>,
        _files: &dyn DataFiles,
        _options: &MetadataOptions,
    ) -> Result<()> {
        Err(Error::internal("metadata tables cannot be made yet"))
    }

    /// The columns whose ranges files must bring along, `None` for "no column statistics are kept". Columns without an order
    /// (lists, maps, records) may be among them and are passed over.
    pub fn column_stats(&self) -> Result<Option<Vec<String>>> {
        Err(Error::internal("not yet"))
    }

    /// True if the keys that files gain and lose must be brought along.
    pub fn has_record_index(&self) -> bool {
        false
    }

    /// Commits the changes that the data table's instant makes, under that instant. Call it with all data files in place, right
    /// before the instant completes.
    pub fn update(&self, _instant: InstantTime, _changes: &Changes) -> Result<()> {
        Err(Error::internal("not yet"))
    }

    /// Takes back what `target` put into the metadata table, for a rollback of it on the data table at instant `rollback`, and
    /// records log files that the rollback added (table version 6). `Conflict` if a compaction of the metadata table has
    /// already taken it in: then only a restore helps.
    pub fn rollback(&self, _rollback: InstantTime, _target: InstantTime, _added: &Changes) -> Result<()> {
        Err(Error::internal("not yet"))
    }

    /// Compacts, if it is time and the data table's pending instants allow it. Call it before an instant's changes are put in, or
    /// after it completed; cleaning and archival are the services that every table has.
    pub fn maintain(&self) -> Result<Option<InstantTime>> {
        let _ = (&self.storage, &self.data, &self.options);
        Err(Error::internal("not yet"))
    }
}

/// Drops partitions of the metadata table, and what depends on them: first from the table's properties, so that no reader uses
/// what goes away. Dropping `files` drops all of it. No other writer may be active; the caller must load the properties again.
pub fn drop_partitions(_storage: &dyn Storage, _data: &Timeline, _partitions: &[&str]) -> Result<()> {
    Err(Error::internal("not yet"))
}
