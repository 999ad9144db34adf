//! Blocks of objects in memory: one cache for all objects of a store, bounded in bytes, one fetch a block.
//!
//! A block is [`BLOCK_BYTES`] of one [`Version`] of an object; the version's tag is part of its key, so that bytes of two
//! versions never meet. A block is absent, pending (somebody fetches it, others wait) or ready. The last
//! [`TAIL_BYTES`] of an object are kept in a list of their own: that is where Parquet keeps its footer, which every
//! reader wants first and which a large scan must not push out.
//!
//! The lock is held for lookups only, never while bytes are copied, fetched or handed out.

pub(super) mod disk;
mod gather;

pub(super) use gather::Gather;

use super::StorageStats;
use crate::error::{Error, Result};
use crate::telemetry::label::{Cache, CacheResult};
use crate::telemetry::metric::{CACHE_BYTES, CACHE_EVICTIONS, CACHE_REQUESTS};
use bytes::Bytes;
use disk::DiskCache;
use lru::LruCache;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes in a block; the last one of an object may be shorter.
pub(super) const BLOCK_BYTES: u64 = 128 << 10;
/// The end of an object that is fetched at once and kept longer.
pub(super) const TAIL_BYTES: u64 = 256 << 10;
/// Share of the memory that tails may take.
const TAIL_SHARE: u64 = 8;

/// Places remembered as opened.
const KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// One version of one object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// The object's place: endpoint, bucket and key.
    pub(super) place: String,
    /// The store's tag, or what stands for it.
    pub(super) tag: String,
    /// Size in bytes.
    pub(super) size: u64,
    hash: u64,
}

impl Version {
    pub(super) fn new(place: String, tag: String, size: u64) -> Self {
        // Seeded anew in each process, so that nobody can choose names that collide.
        static SEED: std::sync::OnceLock<std::hash::RandomState> = std::sync::OnceLock::new();
        let hash = SEED.get_or_init(Default::default).hash_one((&place, &tag, size));
        Version { place, tag, size, hash }
    }

    /// The bytes of block `index`.
    pub(super) fn block(&self, index: u64) -> Range<u64> {
        let start = index.saturating_mul(BLOCK_BYTES).min(self.size);
        start..start.saturating_add(BLOCK_BYTES).min(self.size)
    }

    /// Where the tail begins.
    pub(super) fn tail(&self) -> u64 {
        self.size.saturating_sub(TAIL_BYTES)
    }
}

/// One block of one version.
#[derive(Clone, Debug)]
pub(super) struct BlockKey {
    pub(super) version: Arc<Version>,
    pub(super) index: u64,
}

impl PartialEq for BlockKey {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && (Arc::ptr_eq(&self.version, &other.version) || self.version == other.version)
    }
}

impl Eq for BlockKey {}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.version.hash);
        state.write_u64(self.index);
    }
}

/// The cache of one store.
#[derive(Debug)]
pub(super) struct BlockCache {
    state: Mutex<State>,
    body_max: u64,
    tail_max: u64,
    /// Open objects that read ahead with a large window; they share the memory.
    pub(super) streaming: AtomicUsize,
    pub(super) disk: Option<DiskCache>,
    stats: Arc<StorageStats>,
}

#[derive(Debug)]
struct State {
    body: Lru,
    tail: Lru,
    pending: HashMap<BlockKey, Vec<Waiter>>,
    /// Places opened lately.
    known: LruCache<String, ()>,
}

/// Somebody who waits for a block.
#[derive(Debug)]
struct Waiter {
    gather: Arc<Gather>,
    position: usize,
    /// The block is not needed again once it has been handed over.
    last: bool,
}

#[derive(Debug)]
struct Lru {
    blocks: LruCache<BlockKey, Bytes>,
    bytes: u64,
}

impl Default for Lru {
    fn default() -> Self {
        Lru { blocks: LruCache::unbounded(), bytes: 0 }
    }
}

impl Lru {
    /// Returns how many blocks went to make room.
    fn put(&mut self, key: BlockKey, block: Bytes, bytes_max: u64) -> u64 {
        let size = |b: &Bytes| u64::try_from(b.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(size(&block));
        if let Some(old) = self.blocks.put(key, block) {
            self.bytes = self.bytes.saturating_sub(size(&old));
        }
        let mut evicted = 0;
        while self.bytes > bytes_max {
            let Some((_, old)) = self.blocks.pop_lru() else { break };
            self.bytes = self.bytes.saturating_sub(size(&old));
            evicted += 1;
        }
        evicted
    }
}

impl BlockCache {
    /// A cache of at most `bytes_max` in memory.
    pub(super) fn new(bytes_max: u64, disk: Option<DiskCache>, stats: Arc<StorageStats>) -> Self {
        let tail_max = bytes_max / TAIL_SHARE;
        BlockCache {
            state: Mutex::new(State {
                body: Lru::default(),
                tail: Lru::default(),
                pending: HashMap::new(),
                known: LruCache::new(KNOWN_MAX),
            }),
            body_max: bytes_max - tail_max,
            tail_max,
            streaming: AtomicUsize::new(0),
            disk,
            stats,
        }
    }

    /// The largest window that one reader may have, so that what is read ahead is not pushed out before it is read.
    pub(super) fn window_max(&self, wanted: u64) -> u64 {
        let streams = u64::try_from(self.streaming.load(Ordering::Relaxed)).unwrap_or(u64::MAX).max(1);
        wanted.min(self.body_max / 4 * 3 / streams)
    }

    /// True if the memory suffices to keep an object's end for its reader.
    pub(super) fn keeps_tails(&self) -> bool {
        self.tail_max >= 2 * TAIL_BYTES
    }

    /// True if an object of that place was opened not long ago, so that some of it may be here.
    pub(super) fn knows(&self, place: &str) -> bool {
        self.lock().known.get(place).is_some()
    }

    /// An object of that place was opened.
    pub(super) fn know(&self, place: String) {
        self.lock().known.put(place, ());
    }

    /// Asks for blocks: those at hand go to `gather` at once, those on their way later. Returns those that nobody
    /// fetches yet, which are the caller's to fetch now, by a [`Fetch`] each. Without `gather` only the latter.
    /// Blocks in `passed` go first when room is needed: a sequential reader has then got all of them.
    pub(super) fn request(
        self: &Arc<Self>,
        version: &Arc<Version>,
        blocks: Range<u64>,
        passed: Range<u64>,
        gather: Option<&Arc<Gather>>,
    ) -> Vec<Fetch> {
        let mut ready = Vec::new();
        let mut missing = Vec::new();
        let (mut hits, mut misses) = (0, 0);
        let mut state = self.lock();
        for (position, index) in blocks.enumerate() {
            let key = BlockKey { version: version.clone(), index };
            let last = passed.contains(&index);
            if let Some(block) = state.get(&key, last) {
                hits += 1;
                ready.push((position, block));
                continue;
            }
            let waiter = gather.map(|gather| Waiter { gather: gather.clone(), position, last });
            match state.pending.entry(key) {
                Entry::Occupied(mut pending) => pending.get_mut().extend(waiter),
                Entry::Vacant(vacant) => {
                    misses += 1;
                    missing.push(Fetch { cache: self.clone(), key: Some(vacant.key().clone()) });
                    vacant.insert(waiter.into_iter().collect());
                }
            }
        }
        drop(state);
        if let Some(gather) = gather {
            StorageStats::add(&self.stats.memory_hits, hits);
            CACHE_REQUESTS.add((Cache::BlockMemory, CacheResult::Hit), hits);
            for (position, block) in ready {
                gather.fill(position, Ok(block));
            }
        }
        StorageStats::add(&self.stats.misses, misses);
        CACHE_REQUESTS.add((Cache::BlockMemory, CacheResult::Miss), misses);
        missing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in the critical sections leaves the maps half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, key: BlockKey, result: Result<Bytes>) {
        let mut state = self.lock();
        let waiters = state.pending.remove(&key).unwrap_or_default();
        let last = !waiters.is_empty() && waiters.iter().all(|w| w.last);
        if let Ok(block) = &result {
            let tail = key.version.block(key.index).end > key.version.tail();
            match tail {
                true => CACHE_EVICTIONS.add(Cache::Footer, state.tail.put(key, block.clone(), self.tail_max)),
                false => {
                    let passed = last.then(|| key.clone());
                    CACHE_EVICTIONS.add(Cache::BlockMemory, state.body.put(key, block.clone(), self.body_max));
                    if let Some(passed) = passed {
                        state.body.blocks.demote(&passed);
                    }
                }
            }
            self.stats.memory_bytes.store(state.tail.bytes + state.body.bytes, Ordering::Relaxed);
            CACHE_BYTES.set(Cache::BlockMemory, i64::try_from(state.body.bytes).unwrap_or(i64::MAX));
            CACHE_BYTES.set(Cache::Footer, i64::try_from(state.tail.bytes).unwrap_or(i64::MAX));
        }
        drop(state);
        for Waiter { gather, position, .. } in waiters {
            gather.fill(position, result.as_ref().map(Bytes::clone).map_err(Error::duplicate));
        }
    }
}

impl State {
    /// A block that is at hand; with `last` it goes first when room is needed.
    fn get(&mut self, key: &BlockKey, last: bool) -> Option<Bytes> {
        let is_tail = key.version.block(key.index).end > key.version.tail();
        let list = if is_tail { &mut self.tail } else { &mut self.body };
        let block = list.blocks.get(key).cloned()?;
        if last && !is_tail {
            list.blocks.demote(key);
        }
        Some(block)
    }
}

/// The duty to bring one block; dropped without it, those who wait get an error instead of waiting for ever.
#[derive(Debug)]
pub(super) struct Fetch {
    cache: Arc<BlockCache>,
    key: Option<BlockKey>,
}

impl Fetch {
    /// The block to bring.
    pub(super) fn index(&self) -> u64 {
        self.key.as_ref().map_or(0, |key| key.index)
    }

    /// Looks on the disk; gives the duty back if the block is not there.
    pub(super) fn look_on_disk(mut self) -> Option<Fetch> {
        let Some((disk, key)) = self.cache.disk.as_ref().zip(self.key.as_ref()) else { return Some(self) };
        let found = disk.get(key);
        let result = if found.is_some() { CacheResult::Hit } else { CacheResult::Miss };
        CACHE_REQUESTS.inc((Cache::BlockDisk, result));
        match found {
            Some(block) => {
                StorageStats::add(&self.cache.stats.disk_hits, 1);
                self.finish(Ok(block));
                None
            }
            None => Some(self),
        }
    }

    /// The block has come from the store, or has not.
    pub(super) fn done(mut self, result: Result<Bytes>) {
        if let (Ok(block), Some(disk), Some(key)) = (&result, &self.cache.disk, &self.key) {
            disk.put(key, block);
        }
        self.finish(result);
    }

    fn finish(&mut self, result: Result<Bytes>) {
        if let Some(key) = self.key.take() {
            self.cache.complete(key, result);
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.finish(Err(Error::internal("a fetch ended without a result")));
    }
}

/// Counts an open object among those that read ahead.
#[derive(Debug)]
pub(super) struct Streaming(pub(super) Arc<BlockCache>);

impl Streaming {
    pub(super) fn new(cache: &Arc<BlockCache>) -> Self {
        cache.streaming.fetch_add(1, Ordering::Relaxed);
        Streaming(cache.clone())
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streaming.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A number that no other caller of this process gets.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
