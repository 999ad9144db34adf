//! How a metadata table is written, which partitions a new one gets, and what its maker must be told of data files.

use crate::error::Result;
use crate::metadata::ColumnRange;

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
