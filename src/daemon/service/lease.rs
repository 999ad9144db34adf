//! The lease that a daemon keeps on each table that somebody looks at: the only write of the read path.
//!
//! What is held changes with every look at an old view, so a lease is written anew when that happens, and from time to time as long as
//! the daemon lives. A store that refuses the write switches the lease off and status says so: readers are served all the same.

use super::{Entry, Service, now_ms};
use crate::control::types::LeaseStatus;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Held;
use crate::storage::{Removal, TablePath};
use crate::table::lease::{self, Lease};
use crate::telemetry::event::{Event, EventCode};
use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime};

/// What makes a folder a table.
const PROPERTIES: &str = ".hoodie/hoodie.properties";
/// How long a lease lives unless it is written again.
pub const LIFE: Duration = Duration::from_secs(300);
/// Lives of a lease between two times of writing it, so that some writes may fail.
const RENEWALS: u32 = 5;
/// Shortest time between two writes of a lease that nobody waits for.
const GAP: Duration = Duration::from_secs(2);
/// How long a store that refused the write is left alone.
const REFUSED: Duration = Duration::from_secs(600);

/// What is known of the lease on one table.
#[derive(Debug)]
pub(super) struct Slot {
    id: String,
    written: Option<Written>,
    refused: Option<Instant>,
    /// Given back for good.
    ended: bool,
}

#[derive(Debug)]
struct Written {
    held: Held,
    at: Instant,
}

/// Who asks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Somebody waits until it is in the store.
    Now,
    /// It may wait for its time.
    InTime,
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot { id: uuid::Uuid::new_v4().to_string(), written: None, refused: None, ended: false }
    }

    fn is_due(&self, held: &Held, life: Duration) -> bool {
        match &self.written {
            _ if self.refused.is_some_and(|at| at.elapsed() < REFUSED) => false,
            None => true,
            Some(written) if written.held != *held => written.at.elapsed() >= GAP.min(life / RENEWALS),
            Some(written) => written.at.elapsed() >= life / RENEWALS,
        }
    }
}

impl Service {
    /// How often leases are to be looked at.
    pub fn lease_interval(&self) -> Duration {
        (self.lease_life() / RENEWALS / 4).clamp(Duration::from_millis(20), Duration::from_secs(15))
    }

    /// Writes the leases that are due.
    pub fn renew_leases(&self) {
        for entry in self.entries() {
            self.renew_lease(&entry, Renewal::InTime);
        }
    }

    /// Writes the lease on a table where it is due. True if other processes can see now what is held.
    pub fn renew_lease(&self, entry: &Entry, how: Renewal) -> bool {
        if self.options.read_only {
            return false;
        }
        let held = self.mounted.get().and_then(|m| m.fs.held(&entry.path));
        let mut slot = entry.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = held else {
            remove_lease(entry, &mut slot);
            return false;
        };
        if slot.ended || (how == Renewal::InTime && !slot.is_due(&held, self.lease_life())) {
            return slot.written.is_some();
        }
        match self.write_lease(entry, &slot.id, &held) {
            Ok(expires_ms) => {
                entry.state().lease = LeaseStatus::held(expires_ms, held.instants.len(), held.files.len());
                (slot.written, slot.refused) = (Some(Written { held, at: Instant::now() }), None);
                true
            }
            Err(error) => {
                self.note_lease_failure(entry, &mut slot, &error);
                false
            }
        }
    }

    fn write_lease(&self, entry: &Entry, id: &str, held: &Held) -> Result<i64> {
        let table = entry.opened_table().ok_or_else(|| entry.failure())?;
        let lease = Lease::new(id, &self.lease_owner(), SystemTime::now(), self.lease_life())
            .hold(held.instants.clone(), held.files.clone());
        // Writing makes folders: a table that was deleted must not come back as one with nothing but a lease.
        table.storage().stat(&TablePath::parse(PROPERTIES)?)?;
        table.storage().put(&lease.path()?, lease.encode()?.into())?;
        Ok(lease.expires_ms)
    }

    fn note_lease_failure(&self, entry: &Entry, slot: &mut Slot, error: &Error) {
        let refused = matches!(error.kind(), ErrorKind::Denied | ErrorKind::ReadOnly | ErrorKind::Unsupported);
        if refused {
            tracing::info!(table = entry.name, "no lease is kept on the table: {error}");
            slot.refused = Some(Instant::now());
        } else {
            Event::from_error(EventCode::LeaseFailed, error).table(&entry.name).record();
        }
        // What was written before holds until its end, or until its time has come.
        let lapsed = slot.written.as_ref().is_none_or(|w| w.at.elapsed() >= self.lease_life());
        if refused || lapsed {
            slot.written = None;
            entry.state().lease = LeaseStatus::off(error.message());
        }
    }

    /// Gives every lease back: nobody reads through this daemon any more.
    pub fn release_leases(&self) {
        for entry in self.entries() {
            self.release_lease(&entry);
        }
    }

    /// Gives the lease on a table back.
    fn release_lease(&self, entry: &Entry) {
        let mut slot = entry.lease.lock().unwrap_or_else(PoisonError::into_inner);
        slot.ended = true;
        remove_lease(entry, &mut slot);
    }

    /// What is held has changed; the lease follows soon.
    pub(super) fn wake_keeper(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.wake();
        }
    }

    /// For people who wonder what keeps a cleaner from its work.
    fn lease_owner(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = self.mount_point().map(|p| p.display().to_string()).unwrap_or_default();
        format!("hudifs on {}, process {}, mounted at {place}", host.trim(), std::process::id())
    }

    fn lease_life(&self) -> Duration {
        self.options.lease_life.unwrap_or(LIFE)
    }
}

/// Takes a lease that was written out of the store.
fn remove_lease(entry: &Entry, slot: &mut Slot) {
    if slot.written.take().is_none() {
        return;
    }
    let Some(table) = entry.opened_table() else { return };
    let removed = lease::path_of(&slot.id)
        .and_then(|path: TablePath| Removal::lease(path.file_name()))
        .and_then(|removal| table.storage().delete(&removal));
    entry.state().lease = LeaseStatus::none();
    if let Err(error) = removed {
        tracing::info!(table = entry.name, "the lease is left to end by itself: {error}");
    }
}

impl LeaseStatus {
    pub(super) fn none() -> LeaseStatus {
        LeaseStatus { state: "none".to_owned(), expires_ms: None, instants: 0, files: 0, reason: None }
    }

    fn off(reason: &str) -> LeaseStatus {
        LeaseStatus { state: "off".to_owned(), reason: Some(reason.to_owned()), ..LeaseStatus::none() }
    }

    fn held(expires_ms: i64, instants: usize, files: usize) -> LeaseStatus {
        let (instants, files) = (instants as u64, files as u64);
        LeaseStatus { state: "held".to_owned(), expires_ms: Some(expires_ms), instants, files, reason: None }
    }

    /// What status shows: a lease that was not renewed in time is none.
    pub(super) fn at_present(&self, no_leases: bool) -> LeaseStatus {
        match self.expires_ms {
            _ if no_leases => LeaseStatus::off("switched off by --read-only"),
            Some(at) if at <= now_ms() => LeaseStatus::off("the lease has ended and could not be renewed"),
            _ => self.clone(),
        }
    }
}
