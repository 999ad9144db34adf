//! Mutations on a local disk.
//!
//! A file is written under a hidden name beside its own, synced, and renamed: whole or not there. The hidden name follows from
//! the file's, so that what a crash leaves behind goes with the next removal of that file; it looks neither like an instant
//! nor like a base or log file, to nobody's reader.
//!
//! A conditional replacement holds a `flock` on a file beside while it compares and renames. That orders the processes of
//! hudifs on one disk; no other writer of Hudi replaces conditionally there.

use super::LocalStorage;
use super::folder::Folder;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{ObjectMeta, ObjectWriter, Removal, RemovalKind, TablePath, VersionTag};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes gathered before a system call; larger writes pass through.
const BUFFER_BYTES: usize = 256 << 10;
/// Names tried for a hidden file.
const TRIES_MAX: u32 = 16;
/// Folders within folders that are removed; markers lie as deep as partitions do.
const DEPTH_MAX: u32 = 128;

impl LocalStorage {
    /// The open directory that holds `path`, made with its parents if need be.
    fn parent_of(&self, path: &TablePath) -> Result<Folder> {
        if path.is_root() {
            return Err(Error::invalid("the table's own folder is no file"));
        }
        self.folder(&path.parent())
    }

    /// Opens a directory of the table, made with its parents if need be.
    pub(super) fn folder(&self, dir: &TablePath) -> Result<Folder> {
        let mut missing = Vec::new();
        let mut existing = dir.clone();
        let mut folder = loop {
            match self.directory(&existing) {
                Ok(file) => break Folder::new(file, self.full(&existing)),
                Err(e) if e.kind() == ErrorKind::NotFound && !existing.is_root() => {
                    missing.push(existing.file_name().to_owned());
                    existing = existing.parent();
                }
                Err(e) => return Err(e),
            }
        };
        while let Some(name) = missing.pop() {
            if folder.make_dir(&name)? {
                self.dirty.note(folder.path());
            }
            existing = existing.join(&name)?;
            // Opened from the root: somebody may have put a link there, which must not lead out.
            folder = Folder::new(self.directory(&existing)?, self.full(&existing));
        }
        Ok(folder)
    }

    /// Creates or replaces a small file, durably.
    pub(super) fn write_small(&self, path: &TablePath, bytes: &[u8], replace: bool) -> Result<ObjectMeta> {
        let folder = self.parent_of(path)?;
        let mut hidden = Hidden::create(Arc::new(folder), path.file_name())?;
        hidden.write_all(bytes)?;
        let meta = hidden.sync()?;
        // First what was finished before, then this.
        self.dirty.sync()?;
        let folder = hidden.publish(replace)?;
        folder.sync()?;
        Ok(meta)
    }

    /// Creates one of many files, not durably.
    pub(super) fn write_marker(&self, folder: &Arc<Folder>, name: &str, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            // Nothing that could be seen half.
            return folder.create_new(name).map(drop);
        }
        let mut hidden = Hidden::create(folder.clone(), name)?;
        hidden.write_all(bytes)?;
        hidden.publish(false).map(drop)
    }

    pub(super) fn writer(&self, path: &TablePath) -> Result<Box<dyn ObjectWriter>> {
        let folder = self.parent_of(path)?;
        if self.beneath.open(path.as_str(), libc::O_PATH).is_ok() {
            return Err(exists(&folder, path.file_name()));
        }
        let hidden = Hidden::create(Arc::new(folder), path.file_name())?;
        Ok(Box::new(LocalWriter { out: BufWriter::with_capacity(BUFFER_BYTES, hidden), dirty: self.dirty.clone() }))
    }

    /// Compares and replaces under a lock beside the file.
    pub(super) fn replace_if(
        &self,
        path: &TablePath,
        bytes: &[u8],
        expected: Option<&VersionTag>,
    ) -> Result<VersionTag> {
        let folder = self.parent_of(path)?;
        let guard = path.parent().join(&format!(".{}.flock", path.file_name()))?;
        let _guard = self.flock(&folder, &guard)?;
        let now = match self.open_file(path) {
            Ok(file) => Some(file.tag()?),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        if now.as_ref() != expected {
            let what = if now.is_some() { "was changed by another writer" } else { "does not exist any more" };
            return Err(Error::new(ErrorKind::Conflict, format!("{}: {what}", self.full(path).display())));
        }
        // Not synced: locks are replaced so, which mean nothing after a power failure.
        let mut hidden = Hidden::create(Arc::new(folder), path.file_name())?;
        hidden.write_all(bytes)?;
        hidden.publish(true)?;
        self.open_file(path)?.tag()
    }

    fn flock(&self, folder: &Folder, path: &TablePath) -> Result<File> {
        match folder.create_new(path.file_name()) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        let file = self.beneath.open(path.as_str(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY)?;
        loop {
            // SAFETY: the descriptor is open. The lock goes with it.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(file);
            }
            let e = std::io::Error::last_os_error();
            if e.kind() != std::io::ErrorKind::Interrupted {
                return Err(Error::io(self.full(path).display(), e));
            }
        }
    }

    pub(super) fn remove(&self, what: &Removal) -> Result<()> {
        let path = what.path();
        let folder = match self.directory(&path.parent()) {
            Ok(file) => Folder::new(file, self.full(&path.parent())),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let name = path.file_name();
        let removed = match what.kind() {
            kind if kind.is_folder() => remove_tree(&folder, name, DEPTH_MAX),
            RemovalKind::Heartbeat | RemovalKind::LockFile => folder.unlink(name),
            _ => folder.unlink(name).and_then(|()| folder.unlink(&hidden_name(name))),
        };
        removed.map_err(|e| e.context(format!("deleting {what}")))?;
        self.dirty.note(folder.path());
        Ok(())
    }
}

/// Removes a directory with all that is in it; links are removed, not followed.
fn remove_tree(parent: &Folder, name: &str, depth: u32) -> Result<()> {
    if depth == 0 {
        return Err(Error::corrupt(format!("{}: folders too deep to remove", parent.path().display())));
    }
    let folder = match parent.open_dir(name) {
        Ok(folder) => folder,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            // Gone, or a file or link in the place of a directory.
            return parent.unlink(name);
        }
        Err(e) => return Err(e),
    };
    let entries = super::directory::read(folder.file()).map_err(|e| Error::io(folder.path().display(), e))?;
    for entry in entries {
        let name =
            String::from_utf8(entry.name).map_err(|e| Error::corrupt(format!("{}: {e}", folder.path().display())))?;
        match entry.kind {
            libc::DT_DIR => remove_tree(&folder, &name, depth - 1)?,
            libc::DT_UNKNOWN => match folder.open_dir(&name) {
                Ok(_) => remove_tree(&folder, &name, depth - 1)?,
                Err(_) => folder.unlink(&name)?,
            },
            _ => folder.unlink(&name)?,
        }
    }
    parent.remove_dir(name)
}

/// A file under its hidden name; removed when dropped before it was published.
struct Hidden {
    file: File,
    folder: Arc<Folder>,
    hidden: String,
    name: String,
    published: bool,
}

/// The hidden name that belongs to a name.
fn hidden_name(name: &str) -> String {
    format!(".hudifs-{:016x}.tmp", twox_hash::XxHash64::oneshot(0, name.as_bytes()))
}

impl Hidden {
    fn create(folder: Arc<Folder>, name: &str) -> Result<Hidden> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut hidden = hidden_name(name);
        for _ in 0..TRIES_MAX {
            match folder.create_new(&hidden) {
                Ok(file) => {
                    return Ok(Hidden { file, folder, hidden, name: name.to_owned(), published: false });
                }
                // A crash left it behind, or another writer is at the same file: the rename decides between them.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    let count = COUNT.fetch_add(1, Ordering::Relaxed);
                    hidden = format!(".hudifs-{:x}-{count:x}-{:08x}.tmp", std::process::id(), random());
                }
                Err(e) => return Err(e),
            }
        }
        Err(Error::internal(format!("{}: no free name for a temporary file", folder.path().display())))
    }

    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.failed(e))
    }

    fn sync(&self) -> Result<ObjectMeta> {
        self.file.sync_all().map_err(|e| self.failed(e))?;
        let meta = self.file.metadata().map_err(|e| self.failed(e))?;
        Ok(super::file::object_meta(&meta))
    }

    /// Gives the file its name.
    fn publish(mut self, replace: bool) -> Result<Arc<Folder>> {
        match replace {
            true => self.folder.rename_over(&self.hidden, &self.name)?,
            false => {
                self.folder.rename_new(&self.hidden, &self.name)?;
                let usual = hidden_name(&self.name);
                if self.hidden != usual {
                    // What a crash left there has no use any more, nor has what another writer is at: the name is taken.
                    self.folder.unlink(&usual)?;
                }
            }
        }
        self.published = true;
        Ok(self.folder.clone())
    }

    fn failed(&self, e: std::io::Error) -> Error {
        let full = e.kind() == std::io::ErrorKind::StorageFull || e.kind() == std::io::ErrorKind::QuotaExceeded;
        let error = Error::io(self.folder.path().join(&self.name).display(), e);
        if full { error.with_hint("the disk is full: make room, then write again") } else { error }
    }
}

impl Write for Hidden {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = self.folder.unlink(&self.hidden)
        {
            tracing::warn!(%error, "a temporary file stays behind");
        }
    }
}

struct LocalWriter {
    out: BufWriter<Hidden>,
    dirty: Arc<super::dirty::Dirty>,
}

impl Write for LocalWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl ObjectWriter for LocalWriter {
    fn finish(self: Box<Self>) -> Result<ObjectMeta> {
        let LocalWriter { out, dirty } = *self;
        let hidden = match out.into_inner() {
            Ok(hidden) => hidden,
            Err(e) => {
                let (e, out) = e.into_parts();
                // The rest of the buffer must not be written once more; the file goes.
                let (hidden, _) = out.into_parts();
                return Err(hidden.failed(e));
            }
        };
        let meta = hidden.sync()?;
        let folder = hidden.publish(false)?;
        dirty.note(folder.path());
        Ok(meta)
    }
}

/// Stands for an ETag: a file that was replaced is another inode, one that was rewritten has another time.
pub(super) fn tag(meta: &std::fs::Metadata) -> VersionTag {
    let etag = format!("{:x}-{:x}-{:x}-{:x}", meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size());
    VersionTag { etag: Some(etag), version: None }
}

fn exists(folder: &Folder, name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("{}: exists already", folder.path().join(name).display()))
}

fn random() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}
