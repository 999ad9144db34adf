//! How much the disk cache holds, and what goes when it is too much.
//!
//! Other processes may write to the same directory, so the sum is measured anew each time a sixteenth of the bound has
//! been written: by two daemons together the bound is kept as long as each adds no more than that unseen.

use super::remove;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Leftovers of writers that died are older than this.
const TMP_AGE: Duration = Duration::from_secs(3600);

/// Files compared by age at once: bounds the memory that takes.
const THINNED_TOGETHER: usize = 8192;

/// Rounds of removal before the sum is measured anew.
const THINNINGS_MAX: u32 = 64;

/// The bookkeeping of one writer.
#[derive(Debug)]
pub(super) struct Usage {
    root: PathBuf,
    bytes_max: Option<u64>,
    limit: u64,
    bytes: u64,
    unseen: u64,
    next_shard: u8,
}

impl Usage {
    pub(super) fn new(root: PathBuf, bytes_max: Option<u64>) -> Self {
        Usage { root, bytes_max, limit: 0, bytes: 0, unseen: 0, next_shard: 0 }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Bytes held, as far as this process knows.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sums up what is there and finds the bound.
    pub(super) fn measure(&mut self) {
        let mut sum = 0u64;
        for shard in 0..=u8::MAX {
            for (_, size, _) in files(&self.shard(shard)) {
                sum = sum.saturating_add(size);
            }
        }
        let now = SystemTime::now();
        for (modified, _, path) in files(&self.root.join("tmp")) {
            if now.duration_since(modified).is_ok_and(|age| age > TMP_AGE) {
                remove(&path);
            }
        }
        (self.bytes, self.unseen) = (sum, 0);
        self.limit = self.bytes_max.unwrap_or_else(|| sum.saturating_add(spare(&self.root)));
    }

    pub(super) fn grew(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.unseen = self.unseen.saturating_add(bytes);
    }

    /// Removes what was not used for longest, so that `bytes` more stay within the bound.
    pub(super) fn make_room(&mut self, bytes: u64) {
        if self.unseen > self.limit / 16 {
            self.measure();
        }
        let ceiling = self.limit - self.limit / 16;
        if self.bytes.saturating_add(bytes) <= ceiling {
            return;
        }
        let target = self.limit - self.limit / 8;
        // A directory that others fill, or that cannot be emptied, does not hold us here.
        for _ in 0..THINNINGS_MAX {
            if self.bytes.saturating_add(bytes) <= target {
                return;
            }
            self.thin();
        }
        self.measure();
    }

    /// The older quarter of some directories goes. Keys are spread evenly, so that is close to the oldest overall, and
    /// it is exact while the cache is small.
    fn thin(&mut self) {
        let mut found = Vec::new();
        for _ in 0..=u8::MAX {
            found.extend(files(&self.shard(self.next_shard)));
            self.next_shard = self.next_shard.wrapping_add(1);
            if found.len() >= THINNED_TOGETHER {
                break;
            }
        }
        found.sort_unstable();
        let quarter = found.len().div_ceil(4);
        for (_, size, path) in found.into_iter().take(quarter) {
            if remove(&path) {
                self.bytes = self.bytes.saturating_sub(size);
            }
        }
    }

    fn shard(&self, shard: u8) -> PathBuf {
        self.root.join(format!("{shard:02x}"))
    }
}

fn files(dir: &Path) -> impl Iterator<Item = (SystemTime, u64, PathBuf)> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let meta = entry.metadata().ok()?;
        meta.is_file().then_some(())?;
        Some((meta.modified().ok()?, meta.len(), entry.path()))
    })
}

/// Bytes that may be used without filling the filesystem: all free ones but a twentieth of its size.
fn spare(dir: &Path) -> u64 {
    let Ok(path) = CString::new(dir.as_os_str().as_bytes()) else { return 0 };
    // SAFETY: `statvfs` is plain integers, for which all zeroes is a value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a NUL and outlives the call, and `stat` is what is filled.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
        return 0;
    }
    stat.f_bavail.saturating_sub(stat.f_blocks / 20).saturating_mul(stat.f_frsize)
}
