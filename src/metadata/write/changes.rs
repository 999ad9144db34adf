//! [`Changes`]: what one instant of the data table changes, as the metadata table must know it.

use crate::format::instant::InstantTime;
use crate::metadata::ColumnRange;
use std::collections::{BTreeMap, BTreeSet};

/// What one instant changes. Partitions are paths relative to the table, `""` for a table without partitions.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The partitions touched: every one that the commit's write stats name, even where no file was added.
    pub partitions: BTreeMap<String, PartitionChanges>,
    /// Keys that are new in their file group, or moved to it.
    pub placed: Vec<KeysOfGroup>,
    /// Keys that are nowhere any more. A key that is also placed counts as placed.
    pub removed: Vec<String>,
}

/// What changes in one partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionChanges {
    /// Files that are new: base files, log files and change logs, by name.
    pub added: BTreeMap<String, AddedFile>,
    /// Names of files that are gone from storage, or about to go.
    pub deleted: BTreeSet<String>,
    /// File groups that the instant replaces. Their files stay until they are cleaned, but count for no range any more.
    pub replaced: BTreeSet<String>,
    /// The partition itself is gone: a clean removed all of it.
    pub is_deleted: bool,
}

/// A new file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedFile {
    /// Bytes, never 0.
    pub size: u64,
    /// Ranges of its columns; needed where the table keeps column statistics.
    pub columns: Vec<ColumnRange>,
}

/// Keys that now live in one file group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysOfGroup {
    /// The partition's path.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// When they came there; `None` for the instant being written.
    pub instant: Option<InstantTime>,
    /// The keys.
    pub keys: Vec<String>,
}

impl Changes {
    /// The changes of one partition, for adding to.
    pub fn partition(&mut self, path: &str) -> &mut PartitionChanges {
        self.partitions.entry(path.to_owned()).or_default()
    }

    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.placed.is_empty() && self.removed.is_empty()
    }
}
