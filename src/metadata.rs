//! The metadata table as a source of listings: one lookup instead of a directory listing.
//!
//! `.hoodie/metadata` is a merge-on-read table of its own, whose `files` partition has one record for each partition of the
//! data table (file name to size), and one, `__all_partitions__`, of all partitions. [`MetadataLister`] opens the newest
//! slice of its only file group: the records of the log files are read at once and kept unopened, and of the base HFile
//! only the blocks with the keys that are asked for.
//!
//! **As of when.** A writer commits to the metadata table before it commits to the data table. Records of an instant count
//! when the instant is completed on the data table, as that was loaded *before* the metadata table was opened; nothing of an
//! instant that is still running, or that began later, is seen. The listing is always of that newest moment and never of a
//! time-travel instant: files that a later clean removed must not be listed for an earlier snapshot, since they are gone,
//! and files of later instants are left out by the view, which judges each file by its instant.
//!
//! **Trust.** Every completed write and clean of the active timeline must be known to the metadata table. If one is not,
//! somebody wrote without maintaining it, and opening fails: the caller lists storage instead, and says why.
//! Format: docs/format.md, "Metadata table".

mod changes;
mod lister;
mod parallel;
mod placement;
mod ranges;
mod reader;
mod record;
pub mod record_index;
mod slice;
pub(crate) mod source;
mod stats;
mod valid;
pub mod write;

pub use lister::MetadataLister;
pub use ranges::{Bound, ColumnRange};
pub use record_index::{KeyLocation, RecordIndex};

/// Where the metadata table lies, from the base of the data table.
pub const ROOT: &str = ".hoodie/metadata";
/// The partition of the metadata table that lists files.
const FILES: &str = "files";
/// The partition of the metadata table with the ranges of columns in files.
const COLUMN_STATS: &str = "column_stats";
/// The partition of the metadata table with the ranges of columns in partitions.
const PARTITION_STATS: &str = "partition_stats";
/// The partition of the metadata table that says where keys live.
const RECORD_INDEX: &str = "record_index";
/// The key of the record that lists partitions.
const ALL_PARTITIONS: &str = "__all_partitions__";
/// The key, and the name among the partitions, that stand for the base of a non-partitioned table.
const NON_PARTITIONED: &str = ".";
