//! Events: what a person should know about, kept in a bounded ring.
//!
//! An errno says little, so whoever answers EIO or ESTALE records an [`Event`] that names the table, the partition, the file,
//! the reason and the remedy. `status.json`, the control socket and `hudifs status` show the ring.
//!
//! The same thing happening again (same code, table, partition and file) bumps the event's count instead of taking a
//! new place, so a scan that meets one missing file a million times neither floods the log nor pushes other events out.
//! The first occurrence is logged.

use super::label::{LabelSet, label};
use super::metric::EVENTS;
use crate::error::Error;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Places in the ring.
pub const EVENTS_MAX: usize = 256;
/// Longest text kept of any one field, bytes.
const TEXT_MAX: usize = 2048;

label! {
    /// What happened; the text is stable and documented in docs/observability.md.
    EventCode as "code" {
        /// A committed file vanished while somebody could still read it: ESTALE.
        CleanedUnderReader = "CLEANED_UNDER_READER",
        /// An object was replaced by other bytes after it was opened or listed: ESTALE.
        ObjectReplaced = "OBJECT_REPLACED",
        /// A file is not as long as the table says: EIO.
        SizeMismatch = "SIZE_MISMATCH",
        /// A read failed: EIO.
        ReadFailed = "READ_FAILED",
        /// A partition cannot be shown.
        PartitionFailed = "PARTITION_FAILED",
        /// A view as of an instant cannot be shown.
        ViewFailed = "VIEW_FAILED",
        /// A table cannot be served.
        TableFailed = "TABLE_FAILED",
        /// A refresh failed; the old generation stays.
        RefreshFailed = "REFRESH_FAILED",
        /// The metadata table cannot be used; storage is listed instead.
        MetadataTableUnusable = "METADATA_TABLE_UNUSABLE",
        /// Something about the table that its owner should know.
        TableWarning = "TABLE_WARNING",
        /// A program tried to write to the tree: EROFS.
        WriteRefused = "WRITE_REFUSED",
        /// A peer of the control socket was refused.
        PeerRefused = "PEER_REFUSED",
        /// The lease that tells cleaners what is in use cannot be written.
        LeaseFailed = "LEASE_FAILED",
        /// Commits cannot be watched; polling instead.
        WatchFailed = "WATCH_FAILED",
        /// The kernel or the user's rights do not allow passthrough.
        PassthroughUnavailable = "PASSTHROUGH_UNAVAILABLE",
        /// A request failed by our own mistake.
        Internal = "INTERNAL",
    }
}

/// One thing that happened, once or more often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Number of the event, growing; a repeated one keeps its number.
    pub id: u64,
    /// The latest occurrence, milliseconds since the epoch.
    pub time_ms: i64,
    /// What happened.
    #[serde(serialize_with = "code_text")]
    pub code: EventCode,
    /// The table's name in the mount or its URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The partition, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The file, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What went wrong, naming the thing.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How often it has happened.
    pub count: u64,
}

fn code_text<S: serde::Serializer>(code: &EventCode, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(code.as_str())
}

impl Event {
    /// An event that is not yet recorded.
    pub fn new(code: EventCode, message: impl Into<String>) -> Self {
        Event {
            id: 0,
            time_ms: 0,
            code,
            table: None,
            partition: None,
            file: None,
            message: bounded(message.into()),
            hint: None,
            count: 1,
        }
    }

    /// An event with an error's message and hint.
    pub fn from_error(code: EventCode, error: &Error) -> Self {
        let event = Event::new(code, error.message());
        match error.hint() {
            Some(hint) => event.hint(hint),
            None => event,
        }
    }

    /// Names the table.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(bounded(table.into()));
        self
    }

    /// Names the partition.
    pub fn partition(mut self, partition: impl Into<String>) -> Self {
        self.partition = Some(bounded(partition.into()));
        self
    }

    /// Names the file.
    pub fn file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(bounded(file.into()));
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(bounded(hint.into()));
        self
    }

    /// Puts the event into the ring; the first occurrence is also logged, as a warning. Never blocks for long, never fails.
    pub fn record(self) {
        EVENTS.inc(self.code);
        if let Some(event) = ring().push(self, now_ms()) {
            tracing::warn!(
                code = event.code.as_str(),
                table = event.table,
                partition = event.partition,
                file = event.file,
                hint = event.hint,
                "{}",
                event.message
            );
        }
    }

    fn same_thing(&self, other: &Event) -> bool {
        self.code == other.code
            && self.table == other.table
            && self.partition == other.partition
            && self.file == other.file
            && (self.file.is_some() || self.message == other.message)
    }
}

/// The recorded events, oldest first.
pub fn recent() -> Vec<Event> {
    ring().events.iter().cloned().collect()
}

struct Ring {
    events: VecDeque<Event>,
    last_id: u64,
}

static RING: Mutex<Ring> = Mutex::new(Ring { events: VecDeque::new(), last_id: 0 });

fn ring() -> MutexGuard<'static, Ring> {
    // A panic while the ring was held leaves at worst one event half counted.
    RING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// Adds an event, or counts it with an equal one; returns it when it is new.
    fn push(&mut self, mut event: Event, now_ms: i64) -> Option<Event> {
        if let Some(at) = self.events.iter().rposition(|e| e.same_thing(&event)) {
            // It moves to the end, so that what keeps happening is not pushed out by what happened once.
            if let Some(mut known) = self.events.remove(at) {
                known.count += 1;
                known.time_ms = now_ms;
                known.message = event.message;
                known.hint = event.hint;
                self.events.push_back(known);
            }
            return None;
        }
        self.last_id += 1;
        event.id = self.last_id;
        event.time_ms = now_ms;
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event.clone());
        Some(event)
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Cuts a text at [`TEXT_MAX`] bytes, at a character's border.
fn bounded(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let cut = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        Ring { events: VecDeque::new(), last_id: 0 }
    }

    #[test]
    fn repeated_events_take_one_place_and_move_to_the_end() {
        let mut ring = ring();
        let stale = |file: &str| Event::new(EventCode::CleanedUnderReader, "gone").table("t").file(file);
        assert!(ring.push(stale("a"), 1).is_some());
        assert!(ring.push(stale("b"), 2).is_some());
        for at in 3..1000 {
            assert!(ring.push(stale("a"), at).is_none());
        }
        let seen: Vec<_> = ring.events.iter().map(|e| (e.file.clone().unwrap(), e.count, e.time_ms, e.id)).collect();
        assert_eq!(seen, [("b".to_owned(), 1, 2, 2), ("a".to_owned(), 998, 999, 1)]);
    }

    #[test]
    fn the_ring_is_bounded_in_places_and_bytes() {
        let mut ring = ring();
        for n in 0..EVENTS_MAX + 10 {
            ring.push(Event::new(EventCode::ReadFailed, "é".repeat(5000)).file(format!("{n}")), 0);
        }
        assert_eq!(ring.events.len(), EVENTS_MAX);
        assert_eq!(ring.events[0].file.as_deref(), Some("10"));
        assert!(ring.events.iter().all(|e| e.message.len() <= TEXT_MAX + '…'.len_utf8()));
    }

    #[test]
    fn an_event_shows_only_what_it_knows() {
        let error = Error::corrupt("bad").with_hint("run doctor");
        let json = serde_json::to_value(Event::from_error(EventCode::TableFailed, &error)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"id":0,"time_ms":0,"code":"TABLE_FAILED","message":"bad","hint":"run doctor","count":1})
        );
    }

    #[test]
    fn recording_counts() {
        let before = EVENTS.get(EventCode::WatchFailed);
        Event::new(EventCode::WatchFailed, "no watches left").record();
        assert!(EVENTS.get(EventCode::WatchFailed) > before);
        assert!(recent().iter().any(|e| e.message == "no watches left"));
    }
}
