//! The bloom index: ranges of keys and filters in the footers of base files say which file may hold a key; the file says
//! whether it does.
//!
//! Per partition or over all. A file without a filter is searched for every key in its range, and one without a range for all.
//! Keys that live in log files only are not seen.

use super::files::{self, in_range};
use super::{Index, IndexKind, Key, Location};
use crate::error::Result;
use crate::format::bloom::{BloomFilter, BloomKind};
use crate::slice::keys::KeyFile;
use crate::table::Snapshot;

/// The bloom index, of each partition or global.
#[derive(Debug)]
pub(super) struct Bloom {
    pub global: bool,
    pub threads: usize,
}

impl Index for Bloom {
    fn kind(&self) -> &'static str {
        if self.global { IndexKind::GlobalBloom.name() } else { IndexKind::Bloom.name() }
    }

    fn is_global(&self) -> bool {
        self.global
    }

    fn sees_logs(&self) -> bool {
        false
    }

    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>> {
        files::tag(snapshot, keys, self.global, self.threads, &candidates)
    }
}

fn candidates<'k>(file: &KeyFile, keys: &[&'k str]) -> Result<Vec<&'k str>> {
    let mut candidates = in_range(file, keys);
    // A filter of a kind that is not known says nothing.
    let filter = file.bloom().and_then(|(text, code)| Some((BloomKind::from_code(code)?, text)));
    if let Some((kind, text)) = filter
        && !candidates.is_empty()
    {
        let filter = BloomFilter::parse_text(kind, text.as_bytes())?;
        candidates.retain(|key| filter.might_contain(key));
    }
    Ok(candidates)
}
