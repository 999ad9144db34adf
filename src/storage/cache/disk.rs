//! Blocks on a local disk, kept across restarts and shared by daemons that name the same directory.
//!
//! One file a block, in 256 directories by the hash of its key. A file is written beside and renamed into place, and
//! says whose bytes it holds, with checksums: whatever a crash, another program or a colliding hash left there is either
//! the block that was asked for or is not served. Nothing is synced: after a power cut, torn files are found by their
//! checksums.
//!
//! ```text
//! "HUDIFSB1" | length of identity u32 | identity | length of data u32 | CRC-32 of data u32 | CRC-32 of all before u32 | data
//! ```
//!
//! The directory itself is the only record of what is cached, so processes need no agreement. Least recently used blocks
//! go first, by the files' modification times, which a hit renews (at most once a minute), directory by directory.
//! Writing is the work of one thread; when it cannot keep up, blocks are not kept.

mod evict;

use super::{BlockKey, unique};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::StorageStats;
use crate::telemetry::label::Cache;
use crate::telemetry::metric::CACHE_BYTES;
use bytes::Bytes;
use evict::Usage;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

const MAGIC: &[u8; 8] = b"HUDIFSB1";
/// Blocks waiting to be written.
const QUEUE_BLOCKS: usize = 64;
/// A larger file is not one of ours.
const FILE_BYTES_MAX: u64 = super::BLOCK_BYTES + (16 << 10);
/// A hit renews a file's time only when it is older.
const RENEW_AFTER: Duration = Duration::from_secs(60);

/// A directory of blocks.
#[derive(Debug)]
pub(in crate::storage) struct DiskCache {
    root: PathBuf,
    queue: Option<SyncSender<(BlockKey, Bytes)>>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl DiskCache {
    /// Opens or makes the cache below `dir`, of at most `bytes_max` bytes.
    pub(in crate::storage) fn open(dir: &Path, bytes_max: Option<u64>, stats: Arc<StorageStats>) -> Result<Self> {
        let root = dir.join("hudifs-blocks-1");
        let failed = |e| {
            Error::io(format!("cache directory {}", root.display()), e)
                .with_hint("name a writable directory with --cache")
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(root.join("tmp")).map_err(failed)?;
        let owner = fs::metadata(&root).map_err(failed)?.uid();
        // SAFETY: always succeeds and touches no memory.
        if owner != unsafe { libc::geteuid() } {
            let message = format!("cache directory {} belongs to user {owner}", root.display());
            return Err(Error::new(ErrorKind::Denied, message).with_hint("name a directory of your own with --cache"));
        }
        for shard in 0..=u8::MAX {
            builder.create(root.join(format!("{shard:02x}"))).map_err(failed)?;
        }
        let (queue, blocks) = sync_channel(QUEUE_BLOCKS);
        let usage = Usage::new(root.clone(), bytes_max);
        let spawned =
            std::thread::Builder::new().name("hudifs-cache".into()).spawn(move || write_all(usage, &blocks, &stats));
        Ok(DiskCache { writer: Some(spawned.map_err(failed)?), root, queue: Some(queue) })
    }

    /// The block, if it is there and whole.
    pub(super) fn get(&self, key: &BlockKey) -> Option<Bytes> {
        let path = path_of(&self.root, key);
        let block = read(&path, key);
        match block {
            Ok(block) => block,
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                tracing::debug!(path = %path.display(), error = %e, "a cached block is not usable");
                None
            }
        }
    }

    /// Keeps the block, unless the writer is behind.
    pub(super) fn put(&self, key: &BlockKey, block: &Bytes) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send((key.clone(), block.clone()));
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn identity(key: &BlockKey) -> Vec<u8> {
    let version = &key.version;
    format!("{}\0{}\0{}\0{}", version.place, version.tag, version.size, key.index).into_bytes()
}

/// FNV-1a of 128 bits: the same in every process and release. Collisions cost a miss, since files name their owner.
fn path_of(root: &Path, key: &BlockKey) -> PathBuf {
    let hash = identity(key).iter().fold(0x6c62272e07bb014262b821756295c58d_u128, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b)
    });
    root.join(format!("{:02x}/{hash:032x}", hash >> 120))
}

fn header(key: &BlockKey, block: &[u8]) -> Option<Vec<u8>> {
    let identity = identity(key);
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&u32::try_from(identity.len()).ok()?.to_le_bytes());
    head.extend_from_slice(&identity);
    head.extend_from_slice(&u32::try_from(block.len()).ok()?.to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(block).to_le_bytes());
    let sum = crc32fast::hash(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    Some(head)
}

/// `None` when the file holds anything but this block.
fn read(path: &Path, key: &BlockKey) -> io::Result<Option<Bytes>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0) + 1);
    (&file).take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    let length =
        usize::try_from(key.version.block(key.index).end - key.version.block(key.index).start).unwrap_or(usize::MAX);
    let Some(start) = bytes.len().checked_sub(length) else { return Ok(None) };
    let (head, block) = bytes.split_at(start);
    // The header is made anew from what is expected: every field is compared by comparing it whole.
    if header(key, block).as_deref() != Some(head) {
        return Ok(None);
    }
    let now = SystemTime::now();
    if meta.modified().ok().and_then(|m| now.duration_since(m).ok()).is_some_and(|age| age > RENEW_AFTER) {
        let _ = file.set_modified(now);
    }
    Ok(Some(Bytes::from(bytes).slice(start..)))
}

fn write_all(mut usage: Usage, blocks: &Receiver<(BlockKey, Bytes)>, stats: &StorageStats) {
    usage.measure();
    let mut failed = false;
    while let Ok((key, block)) = blocks.recv() {
        let size = u64::try_from(block.len()).unwrap_or(u64::MAX);
        usage.make_room(size);
        match write(usage.root(), &key, &block) {
            Ok(written) => {
                usage.grew(written);
                failed = false;
            }
            Err(e) if !failed => {
                failed = true;
                tracing::warn!(directory = %usage.root().display(), error = %e, "a block could not be kept in the disk cache");
            }
            Err(_) => {}
        }
        stats.disk_bytes.store(usage.bytes(), Ordering::Relaxed);
        CACHE_BYTES.set(Cache::BlockDisk, i64::try_from(usage.bytes()).unwrap_or(i64::MAX));
    }
}

fn write(root: &Path, key: &BlockKey, block: &Bytes) -> io::Result<u64> {
    let head = header(key, block).ok_or_else(|| io::Error::other("the object's name is too long"))?;
    let beside = root.join(format!("tmp/{}-{}", std::process::id(), unique()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(&head)?;
        file.write_all(block)?;
        fs::rename(&beside, path_of(root, key))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map(|()| u64::try_from(head.len() + block.len()).unwrap_or(u64::MAX))
}

fn remove(path: &Path) -> bool {
    fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests;
