//! The files of a file group: reading and writing one slice of one group.
//!
//! What is written is told to the caller as a [`WrittenFile`]; which instant it belongs to and when it becomes visible is
//! `write`'s.

use crate::format::commit::WriteStat;
use crate::metadata::ColumnRange;

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
