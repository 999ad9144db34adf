//! One open regular file.

use super::super::{ObjectMeta, RandomRead, ReadDone, StorageStats, VersionTag};
use super::{directory::milliseconds, is_directory, not_regular};
use crate::error::{Error, ErrorKind, Result};
use bytes::Bytes;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Opened once, read by position from any thread.
#[derive(Debug)]
pub(super) struct LocalFile {
    file: File,
    path: PathBuf,
    version: Version,
    stats: Arc<StorageStats>,
}

/// What tells that a file was written to since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    size: u64,
    modified: (i64, i64),
}

impl Version {
    fn of(meta: &Metadata) -> Self {
        Version { size: meta.size(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }
}

/// What a store says about a regular file.
pub(super) fn object_meta(meta: &Metadata) -> ObjectMeta {
    ObjectMeta { size: meta.size(), modified_ms: milliseconds(meta.mtime(), meta.mtime_nsec()), etag: None }
}

impl LocalFile {
    /// Takes an open file; refuses all but regular ones.
    pub(super) fn new(file: File, path: PathBuf, stats: Arc<StorageStats>) -> Result<Self> {
        let meta = file.metadata().map_err(|e| Error::io(path.display(), e))?;
        match meta.file_type() {
            t if t.is_file() => Ok(LocalFile { file, path, version: Version::of(&meta), stats }),
            t if t.is_dir() => Err(is_directory(&path)),
            _ => Err(not_regular(&path)),
        }
    }

    pub(super) fn check_size(&self, expected: Option<u64>) -> Result<()> {
        match expected {
            Some(size) if size != self.version.size => Err(Error::new(
                ErrorKind::Stale,
                format!("{}: has {} bytes, the table says {size}", self.path.display(), self.version.size),
            )),
            _ => Ok(()),
        }
    }

    /// What stands for the ETag of the version that was opened.
    pub(super) fn tag(&self) -> Result<VersionTag> {
        let meta = self.file.metadata().map_err(|e| Error::io(self.path.display(), e))?;
        if Version::of(&meta) == self.version { Ok(super::write::tag(&meta)) } else { Err(self.stale()) }
    }

    pub(super) fn read_all(&self, limit: u64) -> Result<Bytes> {
        let size = self.version.size;
        if size > limit {
            return Err(Error::corrupt(format!("{}: has {size} bytes, more than {limit}", self.path.display())));
        }
        self.read(0, size)
    }

    pub(super) fn read_exact(&self, offset: u64, len: u64) -> Result<Bytes> {
        match offset.checked_add(len) {
            Some(end) if end <= self.version.size => self.read(offset, len),
            _ => Err(Error::corrupt(format!(
                "{}: ends at byte {}, {len} bytes at {offset} were expected",
                self.path.display(),
                self.version.size
            ))),
        }
    }

    /// Exactly `len` bytes, all within the size at open.
    fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        let len = usize::try_from(len).map_err(|_| Error::corrupt(format!("{len} bytes do not fit in memory")))?;
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(len).map_err(|e| {
            Error::new(ErrorKind::Unavailable, format!("no memory for {len} bytes of {}", self.path.display()))
                .with_source(e)
        })?;
        while bytes.len() < len {
            let at = offset + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let n = self.pread(&mut bytes, len, at)?;
            if n == 0 {
                return Err(self.stale());
            }
        }
        // Checked after the bytes were taken: what was written before shows now.
        let now = self.file.metadata().map_err(|e| Error::io(self.path.display(), e))?;
        if Version::of(&now) != self.version {
            return Err(self.stale());
        }
        self.stats.received(len);
        Ok(Bytes::from(bytes))
    }

    /// Appends up to `len - bytes.len()` bytes found at `at`.
    fn pread(&self, bytes: &mut Vec<u8>, len: usize, at: u64) -> Result<usize> {
        let filled = bytes.len();
        let spare = bytes.spare_capacity_mut();
        let want = spare.len().min(len - filled);
        let at = i64::try_from(at).map_err(|_| Error::invalid(format!("offset {at} is beyond any file")))?;
        loop {
            // SAFETY: the kernel writes at most `want` bytes, and the spare capacity has that many.
            let n = unsafe { libc::pread(self.file.as_raw_fd(), spare.as_mut_ptr().cast(), want, at) };
            match usize::try_from(n) {
                Ok(n) => {
                    // SAFETY: the kernel has just written these `n` bytes.
                    unsafe { bytes.set_len(filled + n) };
                    return Ok(n);
                }
                Err(_) => {
                    let e = std::io::Error::last_os_error();
                    if e.kind() != std::io::ErrorKind::Interrupted {
                        return Err(Error::io(self.path.display(), e));
                    }
                }
            }
        }
    }

    fn stale(&self) -> Error {
        Error::new(ErrorKind::Stale, format!("{}: was written to after it was opened", self.path.display()))
            .with_hint("a table's files are never rewritten in place; see which program does")
    }
}

impl RandomRead for LocalFile {
    fn size(&self) -> u64 {
        self.version.size
    }

    fn read_at(&self, offset: u64, len: u32, done: ReadDone) {
        let len = u64::from(len).min(self.version.size.saturating_sub(offset));
        done(if len == 0 { Ok(Bytes::new()) } else { self.read(offset, len) });
    }

    fn local_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}
