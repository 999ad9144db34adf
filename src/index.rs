//! Indexes: where a record key lives.
//!
//! An [`Index`] answers for the state of one snapshot, and for nothing that is pending or rolled back. Its entries become true
//! together with the commit that made them: an index that keeps state of its own keeps it in the metadata table.

use crate::error::Result;
use crate::format::instant::InstantTime;
use crate::table::Snapshot;
use std::sync::Arc;

/// Where a record key lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The partition's path.
    pub partition: Arc<str>,
    /// The file group.
    pub file_id: Arc<str>,
    /// The base instant of the slice, or the instant at which the key was put there, as the kind of index knows it.
    pub instant: InstantTime,
}

/// A key to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    /// The partition that the incoming row belongs to.
    pub partition: &'a str,
    /// The record key.
    pub key: &'a str,
}

/// A kind of index over one table.
pub trait Index: Send + Sync + std::fmt::Debug {
    /// Hudi's name of the kind: `BLOOM`, `GLOBAL_SIMPLE`, `BUCKET`, …
    fn kind(&self) -> &'static str;

    /// Keys are unique in the whole table, not only in their partition.
    fn is_global(&self) -> bool;

    /// It finds keys that live only in log files, so that inserts of a merge-on-read table may go there.
    fn sees_logs(&self) -> bool;

    /// Where each key lives, results in order; `None` for keys that the snapshot does not hold. A global index may answer with
    /// another partition than the key's.
    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>>;

    /// The file group into which new keys of a partition must go, where the kind decides that (bucket).
    fn place(&self, _key: &Key<'_>) -> Option<String> {
        None
    }
}
