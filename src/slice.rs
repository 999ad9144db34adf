//! The files of a file group: reading and writing one slice of one group.
//!
//! What is written is told to the caller as a [`WrittenFile`]; which instant it belongs to and when it becomes visible is
//! `write`'s.

pub mod base;
mod encode;
mod footer;
pub mod keys;
pub mod log;
pub mod merge;
pub mod options;
pub(crate) mod pool;
pub mod read;
mod sink;
pub mod sizing;
mod statistics;

#[cfg(test)]
mod tests;

use crate::format::commit::WriteStat;
use crate::format::instant::InstantTime;
use crate::metadata::ColumnRange;

pub use base::BaseWriter;
pub use options::BaseOptions;

/// A data file that was written and synced, and is not yet part of any commit.
#[derive(Clone, Debug)]
pub struct WrittenFile {
    /// The partition's path.
    pub partition: String,
    /// What the commit says of it.
    pub stat: WriteStat,
    /// Ranges of its columns, for the metadata table; empty where nobody asked.
    pub columns: Vec<ColumnRange>,
    /// Keys that were not in the group before and are now.
    pub keys_added: Vec<String>,
    /// Keys that were in the group and are no more.
    pub keys_removed: Vec<String>,
}

/// The base file that is to be written: where, and under which name.
#[derive(Clone, Debug)]
pub struct NewBase {
    /// The partition's path; `""` in a table without partitions.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// The write token: `{task}-{stage}-{attempt}`.
    pub write_token: String,
    /// The instant that writes it.
    pub instant: InstantTime,
    /// The task's number, as in the sequence numbers of its rows.
    pub task: u32,
}

impl NewBase {
    /// The file's name.
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}.parquet", self.file_id, self.write_token, self.instant)
    }
}
