//! The lock in `.hoodie/.locks/table_lock.json`: taken, renewed and released by conditional replacements.
//!
//! The record says until when it is valid. Its holder renews it from a thread of its own; a holder that finds another version
//! has lost it. It is never deleted, only marked expired.
//!
//! On a local disk the record also names the boot of the machine, and its holder keeps a `flock` on a file beside. So a
//! holder that died is known at once on the same machine, and nobody waits until its record expires.

use super::{Held, LockProvider, lost};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Storage, TablePath, VersionTag};
use crate::write::options::WriterOptions;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

const PATH: &str = ".hoodie/.locks/table_lock.json";
/// Kept locked by a holder on a local disk.
const HOLDER: &str = ".hoodie/.locks/.table_lock.json.holder";
const LEN_MAX: u64 = 64 << 10;
/// Clocks of machines may differ by this much.
const DRIFT: Duration = Duration::from_millis(500);
/// Of the time that a lock is valid, this share must be left at the commit point.
const MARGIN: u32 = 10;
const VALIDITY_SECS: &str = "hoodie.write.lock.storage.validity.timeout.secs";
const RENEW_SECS: &str = "hoodie.write.lock.storage.renew.interval.secs";

/// The record. Unknown keys are passed over by all readers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    expired: bool,
    valid_until: i64,
    owner: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

#[derive(Debug)]
pub(super) struct StorageLock {
    storage: Arc<dyn Storage>,
    path: TablePath,
    holder: TablePath,
    validity: Duration,
    renew: Duration,
    boot: Option<String>,
}

impl StorageLock {
    pub(super) fn new(storage: Arc<dyn Storage>, options: &WriterOptions) -> Result<StorageLock> {
        let validity = seconds(options, VALIDITY_SECS, 300.0)?;
        let renew = seconds(options, RENEW_SECS, 30.0)?;
        if renew.is_zero() || validity < renew * MARGIN {
            return Err(Error::invalid(format!(
                "{VALIDITY_SECS}={} must be at least {MARGIN} times {RENEW_SECS}={}",
                validity.as_secs_f64(),
                renew.as_secs_f64()
            )));
        }
        let boot = if storage.is_object_store() { None } else { boot_id() };
        Ok(StorageLock {
            storage,
            path: TablePath::parse(PATH)?,
            holder: TablePath::parse(HOLDER)?,
            validity,
            renew,
            boot,
        })
    }

    /// Who else has it, by the record.
    fn holder_of(&self, bytes: &[u8], alone: bool) -> Result<Option<String>> {
        if bytes.is_empty() {
            // What a power failure left.
            return Ok(None);
        }
        let record: Record = serde_json::from_slice(bytes).map_err(|e| {
            Error::corrupt(format!("{PATH} is no lock record: {e}"))
                .with_hint("if no writer is running, delete the file")
        })?;
        let dead = alone && record.boot.is_some() && record.boot == self.boot;
        let over = now_ms() > record.valid_until.saturating_add(millis(DRIFT));
        if record.expired || over || dead {
            return Ok(None);
        }
        let left = record.valid_until.saturating_sub(now_ms()).max(0);
        Ok(Some(format!("owner {} ({PATH}, valid for {left} ms more unless renewed)", record.owner)))
    }
}

impl LockProvider for StorageLock {
    fn try_lock(&self) -> Result<std::result::Result<Box<dyn Held>, String>> {
        let flock = match self.storage.is_object_store() {
            true => None,
            false => match flock(&*self.storage, &self.holder)? {
                Some(file) => Some(file),
                None => return Ok(Err("another process on this machine".to_owned())),
            },
        };
        let expected = match self.storage.read_tagged(&self.path, LEN_MAX) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            // Replaced while it was read.
            Err(e) if e.kind() == ErrorKind::Stale => return Ok(Err("another process".to_owned())),
            Err(e) => return Err(e),
            Ok((bytes, tag)) => match self.holder_of(&bytes, flock.is_some())? {
                Some(holder) => return Ok(Err(holder)),
                None => Some(tag),
            },
        };
        let owner = uuid::Uuid::new_v4().to_string();
        let lease = Lease {
            storage: self.storage.clone(),
            path: self.path.clone(),
            owner,
            boot: self.boot.clone(),
            validity: self.validity,
            renew: self.renew,
            state: Mutex::new(State {
                tag: None,
                until: Instant::now(),
                renewed: Instant::now(),
                over: false,
                lost: false,
            }),
            wake: Condvar::new(),
        };
        match lease.write(expected.as_ref(), false) {
            Err(e) if e.kind() == ErrorKind::Conflict => Ok(Err("another process, which was faster".to_owned())),
            Err(e) => Err(e.context("taking the table's lock")),
            Ok(()) => Ok(Ok(Box::new(HeldLease::start(Arc::new(lease), flock)?))),
        }
    }

    fn name(&self) -> &'static str {
        "storage based"
    }
}

/// A lock that is held, shared with the thread that renews it.
#[derive(Debug)]
struct Lease {
    storage: Arc<dyn Storage>,
    path: TablePath,
    owner: String,
    boot: Option<String>,
    validity: Duration,
    renew: Duration,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug)]
struct State {
    tag: Option<VersionTag>,
    /// By this process's own clock.
    until: Instant,
    renewed: Instant,
    over: bool,
    lost: bool,
}

impl Lease {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the record that `expected` names.
    fn write(&self, expected: Option<&VersionTag>, expired: bool) -> Result<()> {
        let now = Instant::now();
        let record = Record {
            expired,
            valid_until: now_ms().saturating_add(millis(self.validity)),
            owner: self.owner.clone(),
            boot: self.boot.clone(),
        };
        let bytes = serde_json::to_vec(&record).map_err(|e| Error::internal(format!("a lock record: {e}")))?;
        let tag = self.storage.put_if_match(&self.path, Bytes::from(bytes), expected)?;
        let mut state = self.state();
        state.tag = Some(tag);
        state.renewed = now;
        state.until = now + self.validity;
        Ok(())
    }

    /// Renews it. Whoever else replaced the record has the lock now.
    fn renew_now(&self) -> Result<()> {
        let tag = self.state().tag.clone();
        let result = self.write(tag.as_ref(), false);
        match &result {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                // A replacement whose answer was lost is our own.
                if !self.adopt() {
                    self.state().lost = true;
                    return Err(lost(&self.path, "was taken by another writer"));
                }
                Ok(())
            }
            _ => result,
        }
    }

    /// Takes the record as it is if it is still ours.
    fn adopt(&self) -> bool {
        let Ok((bytes, tag)) = self.storage.read_tagged(&self.path, LEN_MAX) else { return false };
        let ours = serde_json::from_slice::<Record>(&bytes).is_ok_and(|r| r.owner == self.owner && !r.expired);
        if ours {
            self.state().tag = Some(tag);
        }
        ours
    }

    /// Renews until it is over.
    fn keep(&self) {
        let mut pause = self.renew;
        loop {
            let state = self.state();
            let woken = self.wake.wait_timeout_while(state, pause, |s| !s.over);
            let (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            if state.over || state.lost {
                return;
            }
            drop(state);
            pause = match self.renew_now() {
                Ok(()) => self.renew,
                Err(error) => {
                    tracing::warn!(%error, "the table's lock could not be renewed");
                    self.renew / 4
                }
            };
        }
    }
}

struct HeldLease {
    lease: Arc<Lease>,
    keeper: Option<std::thread::JoinHandle<()>>,
    _flock: Option<File>,
}

impl HeldLease {
    fn start(lease: Arc<Lease>, flock: Option<File>) -> Result<HeldLease> {
        let kept = lease.clone();
        let keeper = std::thread::Builder::new().name("hudifs-lock".to_owned()).spawn(move || kept.keep());
        // Without the thread, the check before the commit point renews it.
        let keeper = keeper.inspect_err(|error| tracing::warn!(%error, "no thread to renew the table's lock")).ok();
        Ok(HeldLease { lease, keeper, _flock: flock })
    }
}

impl Held for HeldLease {
    fn check(&self) -> Result<()> {
        let (left, age, lost_already) = {
            let state = self.lease.state();
            (state.until.saturating_duration_since(Instant::now()), state.renewed.elapsed(), state.lost)
        };
        if lost_already || left.is_zero() {
            return Err(lost(&self.lease.path, "ran out, or was taken by another writer"));
        }
        // The clock that was asked may stand still while a machine sleeps: what is not fresh is renewed, which asks the store.
        if age >= self.lease.renew || left < self.lease.validity / MARGIN { self.lease.renew_now() } else { Ok(()) }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.lease.state().over = true;
        self.lease.wake.notify_all();
        if let Some(keeper) = self.keeper.take()
            && keeper.join().is_err()
        {
            tracing::warn!("the thread that renews the table's lock panicked");
        }
        let (tag, lost) = {
            let state = self.lease.state();
            (state.tag.clone(), state.lost)
        };
        if !lost && let Err(error) = self.lease.write(tag.as_ref(), true) {
            tracing::warn!(%error, "the table's lock was not released; it expires");
        }
    }
}

/// Locks the file if nobody has; `None` if somebody has.
fn flock(storage: &dyn Storage, path: &TablePath) -> Result<Option<File>> {
    if storage.local_path(path).is_none() {
        match storage.create_many(&[(path.clone(), Bytes::new())]).pop() {
            Some(Err(e)) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    // It has just been checked not to lead out of the table; only a lock is taken on it.
    let Some(local) = storage.local_path(path) else {
        return Err(Error::not_found(format!("{path} vanished")));
    };
    let file = File::open(&local).map_err(|e| Error::io(local.display(), e))?;
    // SAFETY: the descriptor is open. The lock goes with it.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(file));
    }
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EWOULDBLOCK | libc::EINTR) => Ok(None),
        _ => Err(Error::io(local.display(), e)),
    }
}

/// A setting in seconds, which may have a fraction.
fn seconds(options: &WriterOptions, key: &str, default: f64) -> Result<Duration> {
    let text = options.parsed(key, default)?;
    Duration::try_from_secs_f64(text).map_err(|e| Error::invalid(format!("{key}={text}: {e}")).in_column(key))
}

/// Names this run of the kernel: a `flock` tells the truth about processes of the same one only.
fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn now_ms() -> i64 {
    millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
