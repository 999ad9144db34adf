//! The threads that tell the kernel what to forget: one for each table that has something to tell, so that a table whose store does
//! not answer delays no other.
//!
//! Such a call waits for requests that the kernel has under way in the same directory, so it must never come from a thread that
//! answers requests, nor be made under a lock that one needs. The order is: attributes and listings first, since they wait for
//! nobody; then names; last, for directories that were just being read, a look at a name that cannot exist, which
//! waits until the listing has arrived in the kernel's cache, and the listing once more.

use crate::fs::{Invalidation, TableFs};
use crate::storage::TablePath;
use crate::telemetry::metric::NOTIFICATIONS;
use crate::telemetry::{Event, EventCode, Notification};
use fuser::{INodeNo, Notifier};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time between two rounds of housekeeping.
const TICK: Duration = Duration::from_secs(2);

/// Tells when the kernel has been told.
#[derive(Debug)]
pub struct Told(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn set(&self) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

impl Told {
    /// Waits until the kernel has been told, at most `timeout`; false if that passed first.
    pub fn wait(self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut set = self.0.set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*set {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            set = self.0.changed.wait_timeout(set, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

struct Job {
    what: Invalidation,
    told: Arc<Flag>,
}

/// The way to the threads that tell the kernel: one for each table that has something to tell, for as long as it has.
#[derive(Clone)]
pub struct Teller(Arc<Lanes>);

struct Lanes {
    notifier: Notifier,
    /// What is still to be told, by table. A table that is in here has a thread.
    waiting: Mutex<HashMap<TablePath, VecDeque<Job>>>,
    /// Dropped with the last copy, which ends the housekeeping.
    _open: Sender<()>,
}

impl Teller {
    /// Starts the housekeeping.
    pub fn start(notifier: Notifier, fs: &Arc<TableFs>) -> std::io::Result<Teller> {
        let (open, closed) = channel();
        let lanes = Arc::new(Lanes { notifier, waiting: Mutex::default(), _open: open });
        let (fs, weak) = (Arc::downgrade(fs), Arc::downgrade(&lanes));
        std::thread::Builder::new().name("hudifs-tick".into()).spawn(move || keep_house(&closed, &fs, &weak))?;
        Ok(Teller(lanes))
    }

    /// Hands over what the kernel must forget. Jobs of one table are told in order.
    pub fn tell(&self, what: Invalidation) -> Told {
        let told = Arc::new(Flag::default());
        let (table, job) = (what.table.clone(), Job { what, told: told.clone() });
        let mut waiting = self.0.lock();
        let has_thread = waiting.contains_key(&table);
        waiting.entry(table.clone()).or_default().push_back(job);
        drop(waiting);
        if !has_thread {
            self.0.start(table);
        }
        Told(told)
    }
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<TablePath, VecDeque<Job>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread of a table.
    fn start(self: &Arc<Self>, table: TablePath) {
        let (lanes, of) = (self.clone(), table.clone());
        let work = move || {
            while let Some(job) = lanes.next(&of) {
                tell(&lanes.notifier, &job.what);
                job.told.set();
                tell_again(&lanes.notifier, &job.what);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("hudifs-notify".into()).spawn(work) {
            let message = format!("the kernel cannot be told of a change: {error}");
            Event::new(EventCode::Internal, message).table(table.as_str()).record();
            let waiting = self.lock().remove(&table);
            waiting.into_iter().flatten().for_each(|job| job.told.set());
        }
    }

    /// The next job of a table; without one its thread ends.
    fn next(&self, table: &TablePath) -> Option<Job> {
        let mut waiting = self.lock();
        let job = waiting.get_mut(table).and_then(VecDeque::pop_front);
        if job.is_none() {
            waiting.remove(table);
        }
        job
    }
}

/// Every few seconds, until the session ends.
fn keep_house(closed: &Receiver<()>, fs: &Weak<TableFs>, lanes: &Weak<Lanes>) {
    while closed.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let (Some(fs), Some(lanes)) = (fs.upgrade(), lanes.upgrade()) else { return };
        let teller = Teller(lanes);
        for what in fs.tick() {
            drop(teller.tell(what));
        }
    }
}

fn tell(notifier: &Notifier, what: &Invalidation) {
    let started = Instant::now();
    for ino in &what.inodes {
        inval_inode(notifier, *ino);
    }
    for (parent, name) in &what.entries {
        NOTIFICATIONS.inc(Notification::Entry);
        if let Err(error) = notifier.inval_entry(INodeNo(*parent), OsStr::new(&**name)) {
            tracing::debug!(parent, name = &**name, %error, "the kernel refused to forget a name");
        }
    }
    let elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    tracing::debug!(inodes = what.inodes.len(), entries = what.entries.len(), elapsed_us, "told the kernel");
}

fn tell_again(notifier: &Notifier, what: &Invalidation) {
    for ino in &what.in_flight {
        // No name of a table holds a control character alone. The answer that there is none is what is waited for.
        let _ = notifier.inval_entry(INodeNo(*ino), OsStr::new("\u{1}"));
        inval_inode(notifier, *ino);
    }
}

fn inval_inode(notifier: &Notifier, ino: u64) {
    NOTIFICATIONS.inc(Notification::Inode);
    // From the first byte to the last: for a directory that is its listing.
    if let Err(error) = notifier.inval_inode(INodeNo(ino), 0, 0) {
        tracing::debug!(ino, %error, "the kernel refused to forget an inode");
    }
}
