//! The simple index: the keys of the base files are the index.
//!
//! Per partition or over all. A file is left out by the range of its keys, a row group by its statistics; of the rest the key
//! column is read and nothing else. Keys that live in log files only are not seen.

use super::files::{self, in_range};
use super::{Index, IndexKind, Key, Location};
use crate::error::Result;
use crate::table::Snapshot;

/// The simple index, of each partition or global.
#[derive(Debug)]
pub(super) struct Simple {
    pub global: bool,
    pub threads: usize,
}

impl Index for Simple {
    fn kind(&self) -> &'static str {
        if self.global { IndexKind::GlobalSimple.name() } else { IndexKind::Simple.name() }
    }

    fn is_global(&self) -> bool {
        self.global
    }

    fn sees_logs(&self) -> bool {
        false
    }

    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>> {
        files::tag(snapshot, keys, self.global, self.threads, &|file, keys| Ok(in_range(file, keys)))
    }
}
