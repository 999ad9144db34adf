//! [`RecordIndex`]: where record keys live, by the metadata table's `record_index` partition.
//!
//! A key's hash names its shard, one file group. Of each shard only the HFile blocks that keys fall into are read, once each,
//! and the log files on top of it.

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::sync::Arc;

/// Where a key lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyLocation {
    /// The partition's path.
    pub partition: Arc<str>,
    /// The file group.
    pub file_id: Arc<str>,
    /// The instant at which the key was put there.
    pub instant: InstantTime,
}

/// The record index of one table, as of a state of the data table's timeline.
#[derive(Debug)]
pub struct RecordIndex {
    _storage: Arc<dyn Storage>,
}

impl RecordIndex {
    /// True if the table says that its record index is ready.
    pub fn is_available(data: &Timeline) -> bool {
        data.config().metadata_partitions().contains(&"record_index")
    }

    /// Opens the record index of the data table whose timeline is given.
    pub fn open(_storage: Arc<dyn Storage>, _data: &Timeline) -> Result<RecordIndex> {
        Err(Error::internal("not yet"))
    }

    /// Where each key lives, results in order. Entries of instants that
    /// are not completed count as absent.
    pub fn lookup(&self, _keys: &[&str], _threads: usize) -> Result<Vec<Option<KeyLocation>>> {
        Err(Error::internal("not yet"))
    }
}
