//! Writing instants: their times, their files in each state, and taking them back.
//!
//! Every file is created if absent and never replaced. A store whose answer was lost may have taken a file all the same, so a
//! creation that fails looks whether what is there now is its own. Only a file that says something can be known again;
//! empty ones are the caller's if the requested file of that time was.
//!
//! A time is new if it is later than everything on the timeline and everything that this process made. Between processes the
//! table's lock keeps them apart; without it, creation of the requested file does. Format: docs/format.md, "Instants".

use super::Timeline;
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, Layout, State, Zone};
use crate::storage::{Removal, Storage, TablePath};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

/// Largest instant file compared to know it again.
const LEN_MAX: u64 = 1 << 30;
/// A clock that is set back, or a zone's hour that comes twice, is passed over in this many steps.
const STEPS_MAX: u32 = 100;

/// Writes the instants of one table, or of one table's metadata table.
#[derive(Clone, Debug)]
pub struct InstantWriter {
    storage: Arc<dyn Storage>,
    folder: TablePath,
    layout: Layout,
    zone: Zone,
}

impl InstantWriter {
    /// For the table whose timeline is given. Layout 0 is not written.
    pub fn new(storage: Arc<dyn Storage>, timeline: &Timeline) -> Result<InstantWriter> {
        let config = timeline.config();
        if config.layout() == Layout::V0 {
            return Err(Error::unsupported(format!("{}: timelines of layout 0 are not written", storage.uri()))
                .with_hint("upgrade the table with Hudi first"));
        }
        Ok(InstantWriter { storage, folder: timeline.folder().clone(), layout: config.layout(), zone: config.zone() })
    }

    /// With times of another zone than the table's own properties say: a metadata table has that of its data table.
    pub fn in_zone(self, zone: Zone) -> InstantWriter {
        InstantWriter { zone, ..self }
    }

    /// A time that is later than all on the timeline, requested or completed, and than all that this process made.
    pub fn new_time(&self, timeline: &Timeline) -> Result<InstantTime> {
        let completions = timeline.instants().iter().filter_map(|i| i.completion);
        let newest = timeline.instants().iter().map(|i| i.requested).chain(completions).max();
        new_time(self.storage.uri(), self.zone, newest)
    }

    fn new_time_after(&self, other: InstantTime) -> Result<InstantTime> {
        new_time(self.storage.uri(), self.zone, Some(other))
    }

    /// Creates an instant's requested file; `AlreadyExists` if another has that time.
    pub fn request(&self, time: InstantTime, action: Action, content: impl Into<Bytes>) -> Result<Instant> {
        let instant = Instant { requested: time, action, state: State::Requested, completion: None };
        self.create(&instant, content.into())?;
        Ok(instant)
    }

    /// Creates the inflight file of an instant that the caller requested.
    pub fn start(&self, requested: &Instant, content: impl Into<Bytes>) -> Result<Instant> {
        let instant = Instant { state: State::Inflight, completion: None, ..*requested };
        let content = content.into();
        let empty = content.is_empty();
        match self.create(&instant, content) {
            // The caller's own, from an attempt before.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && empty => Ok(instant),
            other => other.map(|()| instant),
        }
    }

    /// Creates the completed file: the commit point. In layout 2 it is stamped with a time later than all on `timeline`,
    /// which should be the one that was just loaded under the table's lock.
    ///
    /// On an `Unavailable` store the file may or may not be there: see [`InstantWriter::is_completed`].
    pub fn complete(&self, pending: &Instant, timeline: &Timeline, content: impl Into<Bytes>) -> Result<Instant> {
        let completion = match self.layout {
            Layout::V0 | Layout::V1 => None,
            Layout::V2 => Some(self.new_time(timeline)?.max(self.new_time_after(pending.requested)?)),
        };
        let action = pending.action.completes_as();
        let instant = Instant { requested: pending.requested, action, state: State::Completed, completion };
        self.create(&instant, content.into())?;
        Ok(instant)
    }

    /// Looks in storage whether an instant of that time and action has completed.
    pub fn is_completed(&self, pending: &Instant) -> Result<bool> {
        let entries = self.storage.list(&self.folder)?;
        let files = entries.iter().filter_map(|e| Instant::parse_file_name(self.layout, &e.name));
        let same = |i: &Instant| i.requested == pending.requested && i.action == pending.action.completes_as();
        Ok(files.into_iter().any(|i| i.is_completed() && same(&i)))
    }

    /// Deletes one file: that of the instant in its state.
    pub fn delete(&self, instant: &Instant) -> Result<()> {
        self.storage.delete(&Removal::instant(&self.folder, instant)?)
    }

    /// Deletes the files of a pending instant, inflight first: a crash in between leaves one that is only requested.
    pub fn delete_pending(&self, instant: &Instant) -> Result<()> {
        self.revert_to_requested(instant)?;
        self.delete(&Instant { state: State::Requested, completion: None, ..*instant })
    }

    /// Makes an inflight instant requested again, so that its plan can be carried out anew.
    pub fn revert_to_requested(&self, instant: &Instant) -> Result<()> {
        self.delete(&Instant { state: State::Inflight, completion: None, ..*instant })
    }

    /// Makes a completed instant inflight again, so that it can be rolled back. `pending` is the action that it was while
    /// pending: a commit may have been a compaction.
    pub fn revert_to_inflight(&self, completed: &Instant, pending: Action) -> Result<Instant> {
        let inflight =
            Instant { requested: completed.requested, action: pending, state: State::Inflight, completion: None };
        for state in [State::Requested, State::Inflight] {
            match self.create(&Instant { state, ..inflight }, Bytes::new()) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                // A savepoint has no requested file.
                _ if state == State::Requested && pending == Action::Savepoint => {}
                other => other?,
            }
        }
        self.delete(completed)?;
        Ok(inflight)
    }

    fn create(&self, instant: &Instant, content: Bytes) -> Result<()> {
        let path = self.folder.join(&instant.file_name())?;
        let Err(error) = self.storage.create(&path, content.clone()) else { return Ok(()) };
        if !matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Unavailable) {
            return Err(error.at_instant(instant.requested));
        }
        match self.storage.read(&path, LEN_MAX) {
            Ok(there) if !content.is_empty() && there == content => Ok(()),
            Ok(_) => Err(taken(instant).with_source(error)),
            Err(_) => Err(error.at_instant(instant.requested)),
        }
    }
}

fn taken(instant: &Instant) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("another writer has made the {instant} already"))
        .at_instant(instant.requested)
}

/// The last moment that this process gave out for each table, milliseconds since the epoch.
static LAST: LazyLock<Mutex<HashMap<String, i64>>> = LazyLock::new(Mutex::default);

/// A time later than `newest` and all others that this process made for the table.
fn new_time(table: &str, zone: Zone, newest: Option<InstantTime>) -> Result<InstantTime> {
    let mut all = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let last = all.entry(table.to_owned()).or_default();
    let mut moment = now_ms().max(*last + 1);
    for _ in 0..STEPS_MAX {
        let time = InstantTime::from_epoch_ms(moment, zone)
            .ok_or_else(|| Error::internal(format!("the clock stands at {moment} ms, which is no instant")))?;
        let Some(after) = newest.filter(|n| *n >= time) else {
            *last = moment;
            return Ok(time);
        };
        // Somebody's clock is ahead of ours, or ours was set back.
        let next = after.epoch_ms(zone).map_or(moment, |at| at + 1);
        moment = if next > moment { next } else { moment + 60_000 };
    }
    Err(Error::new(ErrorKind::Conflict, format!("the timeline's newest instant, {newest:?}, is later than any clock"))
        .with_hint("an instant with a time in the far future was written; roll it back"))
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> InstantTime {
        InstantTime::parse(text).unwrap()
    }

    #[test]
    fn times_grow_over_threads_and_whatever_the_timeline_holds() {
        let mut all: Vec<InstantTime> = std::thread::scope(|scope| {
            let make = || (0..200).map(|_| new_time("t", Zone::Utc, None).unwrap()).collect::<Vec<_>>();
            let running: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            running.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|t| t.as_str().len() == 17));
        // A time of the timeline that is ahead of the clock is passed.
        let ahead = InstantTime::from_epoch_ms(now_ms() + 3_600_000, Zone::Utc).unwrap();
        for newest in [ahead, time(&format!("{ahead}001"))] {
            let next = new_time("t", Zone::Utc, Some(newest)).unwrap();
            assert!(next > newest && next.as_str().len() == 17, "{next}");
        }
        assert!(new_time("t", Zone::Utc, Some(time("99999999999999999"))).is_err());
        assert!(new_time("t", Zone::Utc, Some(time("001"))).is_ok());
    }

    #[test]
    fn times_are_of_the_table_s_zone() {
        let before = now_ms();
        for zone in [Zone::Utc, Zone::Local] {
            let made = new_time("z", zone, None).unwrap().epoch_ms(zone).unwrap();
            let before = if zone == Zone::Utc { before } else { before - 3_600_000 };
            assert!(made >= before, "{made} {before}");
        }
    }
}
