//! The lock in the file `lock`, created if absent and deleted on release: what Hudi's file-system based provider does.
//!
//! A file that is older than `hoodie.write.lock.filesystem.expire` minutes counts as left behind. Hudi never looks into
//! the file; ours says who made it, so that a holder can see whether it still is his.

use super::{Held, LockProvider, lost};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Removal, Storage, TablePath};
use crate::write::options::WriterOptions;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const FOLDER: &str = "hoodie.write.lock.filesystem.path";
const EXPIRE_MINUTES: &str = "hoodie.write.lock.filesystem.expire";
const LEN_MAX: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct FileLock {
    storage: Arc<dyn Storage>,
    folder: TablePath,
    path: TablePath,
    /// Zero: never.
    expire: Duration,
}

impl FileLock {
    /// `expire_minutes` counts where the settings do not say.
    pub(super) fn new(storage: Arc<dyn Storage>, options: &WriterOptions, expire_minutes: u64) -> Result<FileLock> {
        let folder = match options.setting(FOLDER).map(str::trim).filter(|f| !f.is_empty()) {
            None => TablePath::parse(".hoodie")?,
            Some(folder) => below(storage.uri(), folder)?,
        };
        let path = folder.join("lock")?;
        let expire = Duration::from_secs(options.parsed(EXPIRE_MINUTES, expire_minutes)?.saturating_mul(60));
        Ok(FileLock { storage, folder, path, expire })
    }

    /// Deletes a lock that was left behind. Two writers that do so at once may both go on to create it: one wins.
    fn remove_expired(&self) -> Result<()> {
        if self.expire.is_zero() {
            return Ok(());
        }
        let age = match self.storage.stat(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
            Ok(meta) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                now.saturating_sub(Duration::from_millis(u64::try_from(meta.modified_ms).unwrap_or(0)))
            }
        };
        if age > self.expire {
            tracing::warn!(lock = %self.path, ?age, "a lock that was left behind is removed");
            self.storage.delete(&Removal::lock_file(&self.folder)?)?;
        }
        Ok(())
    }
}

/// A folder of the table, from a path or URI.
fn below(uri: &str, folder: &str) -> Result<TablePath> {
    let local = uri.strip_prefix("file://").unwrap_or(uri);
    let inside = [uri, local].into_iter().find_map(|base| folder.strip_prefix(base)?.strip_prefix('/'));
    let inside = inside.or_else(|| (!folder.contains(':') && !folder.starts_with('/')).then_some(folder));
    inside.map(|f| f.trim_end_matches('/')).and_then(|f| TablePath::parse(f).ok()).ok_or_else(|| {
        Error::unsupported(format!("{FOLDER}={folder:?} is not in the table"))
            .in_column(FOLDER)
            .with_hint("hudifs writes nothing outside the table's base path; leave it out for .hoodie/lock")
    })
}

impl LockProvider for FileLock {
    fn try_lock(&self) -> Result<std::result::Result<Box<dyn Held>, String>> {
        self.remove_expired()?;
        let owner = format!("hudifs {} {}", std::process::id(), uuid::Uuid::new_v4());
        let content = Bytes::from(owner);
        match self.storage.create(&self.path, content.clone()) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let holder = self.storage.read(&self.path, LEN_MAX).unwrap_or_default();
                let holder = match String::from_utf8_lossy(&holder).trim() {
                    "" => "a writer that does not say who it is".to_owned(),
                    text => text.chars().filter(|c| !c.is_control()).take(200).collect(),
                };
                Ok(Err(format!("{holder} (the file {})", self.path)))
            }
            Err(e) => Err(e.context("taking the table's lock")),
            Ok(_) => Ok(Ok(Box::new(HeldFile {
                storage: self.storage.clone(),
                folder: self.folder.clone(),
                path: self.path.clone(),
                content,
                expire: self.expire,
                since: Instant::now(),
            }))),
        }
    }

    fn name(&self) -> &'static str {
        "file-system based"
    }
}

struct HeldFile {
    storage: Arc<dyn Storage>,
    folder: TablePath,
    path: TablePath,
    content: Bytes,
    expire: Duration,
    since: Instant,
}

impl HeldFile {
    fn is_ours(&self) -> Result<bool> {
        match self.storage.read(&self.path, LEN_MAX) {
            Ok(bytes) => Ok(bytes == self.content),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Held for HeldFile {
    fn check(&self) -> Result<()> {
        // Nobody may take it for left behind while we commit.
        let too_old = !self.expire.is_zero() && self.since.elapsed() > self.expire / 2;
        match !too_old && self.is_ours()? {
            true => Ok(()),
            false => Err(lost(&self.path, "was taken by another writer, or is about to expire")),
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let released = self.is_ours().and_then(|ours| match ours {
            true => self.storage.delete(&Removal::lock_file(&self.folder)?),
            false => Ok(()),
        });
        if let Err(error) = released {
            tracing::warn!(%error, "the table's lock was not released: delete {}", self.path);
        }
    }
}
