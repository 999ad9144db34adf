//! Indexes: where a record key lives.
//!
//! An [`Index`] answers for the state of one snapshot, and for nothing that is pending or rolled back. Its entries become true
//! together with the commit that made them: an index that keeps state of its own keeps it in the metadata table.
//!
//! Which kind a table has is fixed when it is first written ([`IndexKind::of_table`]) and kept in the table's properties under
//! Hudi's own names; [`open`] gives the index. Lookups read footers first, then key columns of the row groups that can hold a
//! key, and of the metadata table only the blocks that keys fall into.
//! Format: docs/format.md, "Indexes".

mod bloom;
mod bucket;
mod files;
mod kind;
mod record_level;
mod simple;

pub use kind::IndexKind;

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::format::properties::TableConfig;
use crate::table::Snapshot;
use std::collections::BTreeMap;
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
    /// another partition than the key's. A bucket index answers with the group that the key belongs to, if there is one,
    /// whether or not the key is in it.
    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>>;

    /// The file group into which new keys of a partition must go, where the kind decides that (bucket): an id that nobody
    /// has yet, whose first eight characters are the bucket. `Invalid` for a key that cannot be placed.
    fn place(&self, _key: &Key<'_>) -> Result<Option<String>> {
        Ok(None)
    }
}

/// The index of that kind over a table. `settings` are Hudi's write settings.
///
/// Errors: `Invalid` for settings that contradict each other or the table, `Unsupported` for kinds and engines that are refused
/// by name.
pub fn open(
    kind: IndexKind,
    config: &TableConfig,
    settings: &BTreeMap<String, String>,
    threads: usize,
) -> Result<Arc<dyn Index>> {
    let threads = threads.max(1);
    Ok(match kind {
        IndexKind::Simple => Arc::new(simple::Simple { global: false, threads }),
        IndexKind::GlobalSimple => Arc::new(simple::Simple { global: true, threads }),
        IndexKind::Bloom => Arc::new(bloom::Bloom { global: false, threads }),
        IndexKind::GlobalBloom => Arc::new(bloom::Bloom { global: true, threads }),
        IndexKind::Bucket => Arc::new(bucket::Bucket::new(config, settings)?),
        IndexKind::RecordLevel => Arc::new(record_level::RecordLevel::new(config, threads)?),
        IndexKind::None => Arc::new(NoIndex),
    })
}

/// No index: rows can be added, and nothing else.
#[derive(Debug)]
struct NoIndex;

impl Index for NoIndex {
    fn kind(&self) -> &'static str {
        IndexKind::None.name()
    }

    fn is_global(&self) -> bool {
        false
    }

    fn sees_logs(&self) -> bool {
        false
    }

    fn tag(&self, _snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        Err(Error::invalid("the table is written without an index, so that keys cannot be looked up")
            .with_hint("use insert or bulk_insert, or make the table with another hoodie.index.type"))
    }
}
