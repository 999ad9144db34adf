//! How base files are written, by Hudi's own settings.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// How base files are written.
#[derive(Clone, Debug)]
pub struct BaseOptions {
    /// Rows of one row group.
    pub row_group_rows: usize,
    /// Threads that encode one file.
    pub threads: usize,
    /// Work out column ranges for the metadata table.
    pub column_ranges: bool,
    /// Tell the keys that were added and removed ([`super::WrittenFile::keys_added`]): for indexes that keep them.
    pub tell_keys: bool,
}

impl BaseOptions {
    /// From Hudi's settings. `Invalid` names the setting.
    pub fn new(_settings: &BTreeMap<String, String>) -> Result<BaseOptions> {
        Err(Error::internal("not written yet"))
    }
}
