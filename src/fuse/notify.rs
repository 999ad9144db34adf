//! The one thread that tells the kernel what to forget.
//!
//! Such a call waits for requests that the kernel has under way in the same directory, so it must never come from a thread that
//! answers requests, nor be made under a lock that one needs. The order is: attributes and listings first, since they wait for
//! nobody; then names; last, for directories that were just being read, a look at a name that cannot exist, which
//! waits until the listing has arrived in the kernel's cache, and the listing once more.

use crate::fs::{Invalidation, TableFs};
use crate::telemetry::Notification;
use crate::telemetry::metric::NOTIFICATIONS;
use fuser::{INodeNo, Notifier};
use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
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

/// The way to that thread. The thread ends when the last copy is dropped.
#[derive(Clone)]
pub struct Teller(Sender<Job>);

impl Teller {
    /// Starts the thread.
    pub fn start(notifier: Notifier, fs: &Arc<TableFs>) -> std::io::Result<Teller> {
        let (sender, jobs) = channel();
        let fs = Arc::downgrade(fs);
        std::thread::Builder::new().name("hudifs-notify".into()).spawn(move || run(&jobs, &notifier, &fs))?;
        Ok(Teller(sender))
    }

    /// Hands over what the kernel must forget.
    pub fn tell(&self, what: Invalidation) -> Told {
        let told = Arc::new(Flag::default());
        if self.0.send(Job { what, told: told.clone() }).is_err() {
            // The thread has ended with the mount: nothing is cached any more.
            told.set();
        }
        Told(told)
    }
}

fn run(jobs: &Receiver<Job>, notifier: &Notifier, fs: &Weak<TableFs>) {
    let mut next_tick = Instant::now() + TICK;
    loop {
        match jobs.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
            Ok(job) => {
                tell(notifier, &job.what);
                job.told.set();
                tell_again(notifier, &job.what);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= next_tick {
            if let Some(fs) = fs.upgrade() {
                fs.tick();
            }
            next_tick = Instant::now() + TICK;
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
