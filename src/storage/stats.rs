//! Counters of what a store was asked for: the evidence that a listing costs no request per file.

use crate::telemetry::metric::STORAGE_READ_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the store was opened. Each is exact; together they are not one instant's picture.
#[derive(Debug, Default)]
pub struct StorageStats {
    /// Listing requests (each page counts) or directories read.
    pub lists: AtomicU64,
    /// Requests for one object's metadata, or files stat'ed.
    pub heads: AtomicU64,
    /// Requests for bytes, or files opened for reading.
    pub gets: AtomicU64,
    /// Requests that create or replace an object, or files created.
    pub puts: AtomicU64,
    /// Requests that delete, or names removed.
    pub deletes: AtomicU64,
    /// Bytes received from the store.
    pub bytes: AtomicU64,
    /// Requests that ended in an error other than "does not exist".
    pub errors: AtomicU64,
    /// Attempts that failed in a way that is tried again.
    pub retries: AtomicU64,
    /// Blocks served from memory.
    pub memory_hits: AtomicU64,
    /// Blocks served from the disk cache.
    pub disk_hits: AtomicU64,
    /// Blocks that had to be fetched.
    pub misses: AtomicU64,
    /// Bytes held by the block cache in memory now.
    pub memory_bytes: AtomicU64,
    /// Bytes held by the disk cache now, as far as this process knows.
    pub disk_bytes: AtomicU64,
}

impl StorageStats {
    /// Adds `n` to a counter.
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Bytes have come from the store.
    pub(crate) fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Self::add(&self.bytes, bytes);
        STORAGE_READ_BYTES.add((), bytes);
    }

    /// The counters by metric name, in a fixed order.
    pub fn values(&self) -> [(&'static str, u64); 13] {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        [
            ("lists", get(&self.lists)),
            ("heads", get(&self.heads)),
            ("gets", get(&self.gets)),
            ("puts", get(&self.puts)),
            ("deletes", get(&self.deletes)),
            ("bytes", get(&self.bytes)),
            ("errors", get(&self.errors)),
            ("retries", get(&self.retries)),
            ("memory_hits", get(&self.memory_hits)),
            ("disk_hits", get(&self.disk_hits)),
            ("misses", get(&self.misses)),
            ("memory_bytes", get(&self.memory_bytes)),
            ("disk_bytes", get(&self.disk_bytes)),
        ]
    }
}
