//! The table's lock: one writer at a time in the critical sections of all writers that use the same lock.
//!
//! | `hoodie.write.lock.provider` | what excludes whom |
//! |---|---|
//! | `StorageBasedLockProvider` | all writers that use it: `.hoodie/.locks/table_lock.json`, replaced conditionally |
//! | `FileSystemBasedLockProvider` | all writers that use it: the file `lock`, created if absent |
//! | `InProcessLockProvider` | the threads of this process |
//!
//! Without a setting the lock is storage based, which excludes all processes of hudifs with no configuration, and on HDFS,
//! which cannot replace conditionally, file-system based. Hudi on Spark or Flink excludes itself with us only if it is given the
//! same provider, with optimistic concurrency control and lazy cleaning of failed writes; its storage based provider
//! takes object stores only, so on a local disk and on HDFS that is the file-system based one.
//!
//! A lock can be lost: its holder was stopped for longer than it is valid. So [`Guard::check`] is asked right before the
//! commit point, and who lost it does not commit. Format: docs/format.md, "Locks".

mod file;
mod process;
mod storage;

use super::options::WriterOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Storage, TablePath};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROVIDER: &str = "hoodie.write.lock.provider";
const WAIT_MS: &str = "hoodie.write.lock.wait_time_ms";
const WAIT_MS_DEFAULT: u64 = 60_000;
/// Without a setting, a lock file on HDFS counts as left behind after this time; Hudi's own never does.
const HDFS_EXPIRE_MINUTES: u64 = 10;
/// Waits between attempts: short at first, since critical sections are.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(1000);

/// A kind of lock on one table.
pub trait LockProvider: Send + Sync + Debug {
    /// Takes the lock, or tells who has it: `Ok(Err(holder))`.
    fn try_lock(&self) -> Result<std::result::Result<Box<dyn Held>, String>>;

    /// Its name, for messages.
    fn name(&self) -> &'static str;
}

/// A lock that is held until it is dropped.
pub trait Held: Send {
    /// Makes sure that it is still held; `Conflict` if it was lost.
    fn check(&self) -> Result<()>;
}

/// The lock of one table: threads of this process first, other processes then.
#[derive(Debug)]
pub struct TableLock {
    provider: Arc<dyn LockProvider>,
    process: process::ProcessLock,
    uri: String,
    wait: Duration,
}

/// The held lock; released when dropped.
pub struct Guard {
    // Released in this order: other processes' lock first.
    held: Box<dyn Held>,
    _process: process::Turn,
}

impl TableLock {
    /// The lock that the settings name.
    pub fn new(storage: &Arc<dyn Storage>, options: &WriterOptions) -> Result<TableLock> {
        let wait = Duration::from_millis(options.parsed(WAIT_MS, WAIT_MS_DEFAULT)?);
        let provider = provider(storage, options)?;
        Ok(TableLock {
            provider,
            process: process::ProcessLock::of(storage.uri()),
            uri: storage.uri().to_owned(),
            wait,
        })
    }

    /// Waits for the lock, at most as long as `hoodie.write.lock.wait_time_ms` says; then `Conflict` names its holder.
    pub fn lock(&self) -> Result<Guard> {
        let deadline = Instant::now() + self.wait;
        let turn = self.process.lock(self.wait).ok_or_else(|| self.busy("another thread of this process"))?;
        let mut pause = PAUSE_MIN;
        loop {
            let holder = match self.provider.try_lock()? {
                Ok(held) => return Ok(Guard { held, _process: turn }),
                Err(holder) => holder,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.busy(&holder));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn busy(&self, holder: &str) -> Error {
        Error::new(
            ErrorKind::Conflict,
            format!("{}: the table's lock ({}) is held by {holder}", self.uri, self.provider.name()),
        )
        .with_hint(format!("waited {} ms; try again, or raise {WAIT_MS}", self.wait.as_millis()))
    }
}

impl Guard {
    /// Makes sure that the lock is still held; `Conflict` if it was lost.
    pub fn check(&self) -> Result<()> {
        self.held.check()
    }
}

fn provider(storage: &Arc<dyn Storage>, options: &WriterOptions) -> Result<Arc<dyn LockProvider>> {
    let named = options.setting(PROVIDER).map(str::trim).filter(|n| !n.is_empty());
    let class = named.map(|n| n.rsplit('.').next().unwrap_or(n));
    let hdfs = storage.uri().starts_with("hdfs:");
    match class {
        None if hdfs => Ok(Arc::new(file::FileLock::new(storage.clone(), options, HDFS_EXPIRE_MINUTES)?)),
        None | Some("StorageBasedLockProvider") if !hdfs => {
            Ok(Arc::new(storage::StorageLock::new(storage.clone(), options)?))
        }
        Some("FileSystemBasedLockProvider") => Ok(Arc::new(file::FileLock::new(storage.clone(), options, 0)?)),
        Some("InProcessLockProvider") => Ok(Arc::new(process::InProcess)),
        _ => Err(Error::unsupported(format!("{PROVIDER}={} on {}", named.unwrap_or_default(), storage.uri()))
            .in_column(PROVIDER)
            .with_hint(
                "the providers are StorageBasedLockProvider (not on HDFS), FileSystemBasedLockProvider and \
                 InProcessLockProvider; all writers of the table must use the same one",
            )),
    }
}

fn lost(what: &TablePath, why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the table's lock was lost: {what} {why}"))
        .with_hint("this process was stopped for too long; nothing was committed, write again")
}
