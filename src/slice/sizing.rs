//! How large files become: which small files take inserts, and how many rows a new one gets.

use crate::error::{Error, Result};
use crate::format::commit::CommitMetadata;
use std::collections::BTreeMap;

/// Sizes that files should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Bytes at which a base file is full.
    pub file_max: u64,
    /// Base files below it take inserts; 0: none does.
    pub small_file: u64,
    /// Bytes of a record while no commit tells.
    pub record_estimate: u64,
}

/// A file group that takes inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The group.
    pub file_id: String,
    /// Rows that it takes.
    pub rows: u64,
}

impl Sizing {
    /// From Hudi's settings. `Invalid` names the setting.
    pub fn new(_settings: &BTreeMap<String, String>) -> Result<Sizing> {
        Err(Error::internal("not written yet"))
    }

    /// Average bytes of a record, by commits, newest first.
    pub fn record_size<'c>(&self, _commits: impl Iterator<Item = &'c CommitMetadata>) -> u64 {
        self.record_estimate
    }

    /// Which groups take how many of `inserts` rows; `files` are the groups of a partition that may take some, by id and size
    /// of their base file.
    pub fn rooms<'f>(&self, _files: impl Iterator<Item = (&'f str, u64)>, _record: u64, _inserts: u64) -> Vec<Room> {
        Vec::new()
    }

    /// Rows of a new file.
    pub fn rows_of_new_file(&self, record: u64) -> u64 {
        (self.file_max / record.max(1)).max(1)
    }
}
