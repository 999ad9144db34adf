//! Heartbeats: a file of no bytes whose time of modification says that a write is alive.
//!
//! `.hoodie/.heartbeat/<instant>`, written anew every `hoodie.client.heartbeat.interval_in_ms`. A write whose beat is older than
//! some intervals, or that has none, is dead, and anybody may roll it back. Format: docs/format.md, "Heartbeats".

use super::options::WriterOptions;
use crate::error::{ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::storage::{Removal, Storage, TablePath};
use bytes::Bytes;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

const FOLDER: &str = ".hoodie/.heartbeat";
const INTERVAL_MS: &str = "hoodie.client.heartbeat.interval_in_ms";
const MISSES: &str = "hoodie.client.heartbeat.tolerable.misses";

/// How often a write beats, and how many beats it may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatSettings {
    /// Time between beats.
    pub interval: Duration,
    /// Beats that may be missing.
    pub misses: u32,
}

impl BeatSettings {
    /// From the settings, with Hudi's defaults.
    pub fn new(options: &WriterOptions) -> Result<BeatSettings> {
        let interval = Duration::from_millis(options.parsed(INTERVAL_MS, 60_000u64)?.max(1));
        Ok(BeatSettings { interval, misses: options.parsed(MISSES, 2u32)? })
    }

    /// True if the write has no beat, or an old one.
    pub fn is_expired(&self, storage: &dyn Storage, instant: InstantTime) -> Result<bool> {
        let beat = match storage.stat(&path(instant)?) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(true),
            other => Duration::from_millis(u64::try_from(other?.modified_ms).unwrap_or(0)),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(now.saturating_sub(beat) > self.interval * self.misses)
    }
}

/// A write's heartbeat. Dropped, it stops and leaves the file, which grows old.
#[derive(Debug)]
pub struct Heartbeat {
    storage: Arc<dyn Storage>,
    instant: InstantTime,
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Beats for the first time, and goes on from a thread of its own.
    pub fn start(storage: Arc<dyn Storage>, instant: InstantTime, settings: BeatSettings) -> Result<Heartbeat> {
        let path = path(instant)?;
        match storage.create_many(&[(path.clone(), Bytes::new())]).pop() {
            Some(Err(e)) if e.kind() == ErrorKind::AlreadyExists => drop(storage.put(&path, Bytes::new())?),
            Some(other) => other?,
            None => {}
        }
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let (beating, signal) = (storage.clone(), over.clone());
        let beat = move || {
            let (over, wake) = &*signal;
            loop {
                let state = over.lock().unwrap_or_else(PoisonError::into_inner);
                let woken = wake.wait_timeout_while(state, settings.interval, |over| !*over);
                if *woken.unwrap_or_else(PoisonError::into_inner).0 {
                    return;
                }
                if let Err(error) = beating.put(&path, Bytes::new()) {
                    tracing::warn!(%error, %instant, "a heartbeat was missed");
                }
            }
        };
        let spawned = std::thread::Builder::new().name("hudifs-heartbeat".to_owned()).spawn(beat);
        let thread = spawned.map_err(|e| crate::Error::io("a thread for the heartbeat", e))?;
        Ok(Heartbeat { storage, instant, over, thread: Some(thread) })
    }

    /// Stops, and removes the file.
    pub fn end(mut self) -> Result<()> {
        self.stop();
        delete(&*self.storage, self.instant)
    }

    fn stop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!(instant = %self.instant, "the thread of a heartbeat panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Removes a write's heartbeat.
pub fn delete(storage: &dyn Storage, instant: InstantTime) -> Result<()> {
    storage.delete(&Removal::heartbeat(instant))
}

/// True if the write has a heartbeat, alive or not.
pub fn exists(storage: &dyn Storage, instant: InstantTime) -> Result<bool> {
    match storage.stat(&path(instant)?) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        other => other.map(|_| true),
    }
}

/// The writes that have a heartbeat.
pub fn instants(storage: &dyn Storage) -> Result<Vec<InstantTime>> {
    let entries = match storage.list(&TablePath::parse(FOLDER)?) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    Ok(entries.iter().filter_map(|e| InstantTime::parse(&e.name)).collect())
}

fn path(instant: InstantTime) -> Result<TablePath> {
    TablePath::parse(&format!("{FOLDER}/{instant}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{self, StorageOptions};

    #[test]
    fn a_write_is_alive_while_it_beats() {
        let dir = tempfile::tempdir().unwrap();
        let storage = storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap();
        let settings = BeatSettings { interval: Duration::from_millis(30), misses: 10 };
        let [one, two] = ["1", "2"].map(|t| InstantTime::parse(t).unwrap());
        assert!(settings.is_expired(&*storage, one).unwrap(), "no beat at all");
        let beat = Heartbeat::start(storage.clone(), one, settings).unwrap();
        let dead = Heartbeat::start(storage.clone(), two, settings).unwrap();
        drop(dead);
        std::thread::sleep(Duration::from_millis(500));
        assert!(!settings.is_expired(&*storage, one).unwrap());
        assert!(settings.is_expired(&*storage, two).unwrap());
        beat.end().unwrap();
        assert!(settings.is_expired(&*storage, one).unwrap());
        assert!(!dir.path().join(".hoodie/.heartbeat/1").exists());
    }
}
