//! Record keys of a base file: footers, and lookups that read key columns only.

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::storage::{RandomRead, Storage, TablePath};
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

/// A base file that was opened for lookups: its footer was read, no row.
#[derive(Debug)]
pub struct KeyFile {
    /// The bytes.
    pub file: Arc<dyn RandomRead>,
    /// The footer.
    pub metadata: Arc<ParquetMetaData>,
}

/// A key that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundKey {
    /// The key's place among those that were asked for.
    pub index: usize,
    /// The row in the file.
    pub row: u64,
}

impl KeyFile {
    /// Reads the footer of a base file.
    pub fn open(_storage: &dyn Storage, _path: &TablePath, _size: Option<u64>) -> Result<KeyFile> {
        Err(Error::internal("not written yet"))
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        0
    }

    /// The smallest and the largest key, where the footer tells.
    pub fn key_range(&self) -> Option<(&str, &str)> {
        None
    }

    /// The Base64 text of the filter and its type code, where the footer has one.
    pub fn bloom(&self) -> Option<(&str, &str)> {
        None
    }

    /// Which of the sorted keys the file holds, by its key column; row groups that cannot hold any are not read.
    pub fn find(&self, _keys: &[&str]) -> Result<Vec<FoundKey>> {
        Err(Error::internal("not written yet"))
    }

    /// Calls `visit` with each key and the instant that last changed its row, in the order of the file.
    pub fn visit(&self, _visit: &mut dyn FnMut(&str, InstantTime) -> Result<()>) -> Result<()> {
        Err(Error::internal("not written yet"))
    }
}
