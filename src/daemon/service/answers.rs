//! The control socket's questions, answered.

use super::{Entry, Renewal, Service};
use crate::control::Handler;
use crate::control::problem::Failure;
use crate::control::sink::FileSink;
use crate::control::types::*;
use crate::daemon::files;
use crate::error::{Error, Result};
use crate::format::commit::CommitMetadata;
use crate::format::instant::{Instant, State};
use crate::fs::{PinId, Pins as FsPins};
use crate::storage::Storage;
use crate::table::Snapshot;
use std::time::{Duration, SystemTime};

/// How long a pin lasts unless its maker says otherwise.
const PIN_DEFAULT: Duration = Duration::from_secs(3600);

impl Handler for Service {
    fn status(&self) -> Status {
        self.status_of(None)
    }

    fn metrics(&self) -> String {
        self.export_metrics()
    }

    fn tables(&self) -> Tables {
        Tables { tables: self.entries().iter().map(|e| self.table_status(e)).collect() }
    }

    fn table(&self, name: &str) -> Result<TableStatus, Failure> {
        Ok(self.table_status(&*self.entry(name)?))
    }

    fn timeline(&self, name: &str, query: TimelineQuery) -> Result<Timeline, Failure> {
        self.timeline_of(&*self.entry(name)?, query)
    }

    fn files(&self, name: &str, query: &FilesQuery, sink: &mut dyn FileSink) -> Result<(), Failure> {
        let entry = self.entry(name)?;
        let snapshot = match &query.as_of {
            None => self.shown(&entry)?,
            Some(moment) => {
                let table = entry.opened_table().ok_or_else(|| Failure::from(entry.failure()).table(&entry.name))?;
                table.as_of(moment).map_err(|e| Failure::from(e).table(&entry.name))?
            }
        };
        files::list(&entry.name, &snapshot, query.partition.as_deref(), sink)
    }

    fn refresh(&self, request: &RefreshRequest) -> Result<Refreshed, Failure> {
        let tables = match &request.table {
            Some(name) => vec![self.refresh_table(&*self.entry(name)?)],
            None => self.refresh_all(),
        };
        Ok(Refreshed { tables })
    }

    fn pin(&self, request: &PinRequest) -> Result<Pin, Failure> {
        let entry = self.entry(request.table.as_deref().unwrap_or_default())?;
        let table = entry.opened_table().ok_or_else(|| Failure::from(entry.failure()).table(&entry.name))?;
        let snapshot = match &request.instant {
            Some(moment) => table.as_of(moment).map_err(|e| Failure::from(e).table(&entry.name).instant(moment))?,
            None => self.shown(&entry)?,
        };
        let instant = snapshot.instant().ok_or_else(|| {
            Failure::from(Error::not_found("the table has no completed commit to pin")).table(&entry.name)
        })?;
        let label = request.label.as_deref().unwrap_or_default();
        let pin = self.all_pins()?.create(
            entry.path.as_str(),
            instant,
            ttl(request.ttl_seconds),
            label,
            SystemTime::now(),
        )?;
        // Whoever cleans the table from another process knows of the pin before its maker does.
        let leased = Some(self.renew_lease(&entry, Renewal::Now));
        Ok(Pin { leased, ..self.pin_document(&pin) })
    }

    fn pins(&self) -> Pins {
        Pins { pins: self.pin_list() }
    }

    fn extend(&self, id: &str, request: &ExtendRequest) -> Result<Pin, Failure> {
        let pin = self.all_pins()?.extend(pin_id(id)?, ttl(request.ttl_seconds), SystemTime::now())?;
        Ok(self.pin_document(&pin))
    }

    fn unpin(&self, id: &str) -> Result<(), Failure> {
        self.all_pins()?.delete(pin_id(id)?, SystemTime::now())?;
        self.wake_keeper();
        Ok(())
    }
}

impl Service {
    fn all_pins(&self) -> Result<&FsPins> {
        self.mounted.get().map(|m| m.fs.pins()).ok_or_else(|| {
            Error::unsupported("a pin is held by a daemon, and none runs for this table")
                .with_hint("mount the table and pin through the mount")
        })
    }

    /// The instants of a table.
    pub(super) fn timeline_of(&self, entry: &Entry, query: TimelineQuery) -> Result<Timeline, Failure> {
        let shown = self.shown(entry)?;
        // Opened, or nothing would be shown.
        let storage = entry.opened_table().filter(|_| query.counts).map(|t| t.storage().clone());
        let active = shown.timeline().instants().iter().map(|i| instant_document(&shown, i, storage.as_deref()));
        let mut instants = if query.archived { self.archived_of(entry, &shown)? } else { Vec::new() };
        instants.extend(active);
        Ok(Timeline { table: entry.name.clone(), instant: shown.instant().map(|i| i.to_string()), instants })
    }

    /// The archived instants of a table, without what they wrote: their files are gone.
    fn archived_of(&self, entry: &Entry, shown: &Snapshot) -> Result<Vec<TimelineInstant>, Failure> {
        let Some(table) = entry.opened_table() else { return Ok(Vec::new()) };
        let archived =
            shown.timeline().archived(&**table.storage()).map_err(|e| Failure::from(e).table(&entry.name))?;
        let document = |i| TimelineInstant { archived: true, ..instant_document(shown, i, None) };
        Ok(archived.iter().map(document).collect())
    }
}

fn ttl(seconds: Option<u64>) -> Duration {
    seconds.map_or(PIN_DEFAULT, Duration::from_secs)
}

fn pin_id(text: &str) -> Result<PinId> {
    text.parse().map(PinId).map_err(|_| {
        Error::not_found(format!("there is no pin {text:?}"))
            .with_hint("GET /v1/pin lists the pins that have not ended")
    })
}

/// Counts are read where there is a store to read them from.
fn instant_document(snapshot: &Snapshot, instant: &Instant, counts: Option<&dyn Storage>) -> TimelineInstant {
    let state = match instant.state {
        State::Requested => "requested",
        State::Inflight => "inflight",
        State::Completed => "completed",
    };
    let mut document = TimelineInstant {
        requested: instant.requested.to_string(),
        completed: instant.completion.map(|c| c.to_string()),
        action: instant.action.name().to_owned(),
        state: state.to_owned(),
        ..TimelineInstant::default()
    };
    if let Some(storage) = counts
        && instant.is_completed()
        && instant.action.is_write()
    {
        // A commit file that cannot be read leaves its counts out; `hudifs doctor` reports it.
        if let Ok(metadata) = snapshot.timeline().commit_metadata(storage, instant) {
            document.operation.clone_from(&metadata.operation);
            document.counts = Some(commit_counts(&metadata));
        }
    }
    document
}

fn commit_counts(metadata: &CommitMetadata) -> CommitCounts {
    let stats = || metadata.written.iter().flat_map(|p| &p.stats);
    CommitCounts {
        partitions: metadata.written.len() as u64,
        files: stats().filter(|s| s.path.is_some()).count() as u64,
        records: stats().filter_map(|s| s.records).fold(0, u64::saturating_add),
        size_bytes: stats().filter_map(|s| s.size).fold(0, u64::saturating_add),
        replaced: metadata.replaced.iter().map(|r| r.file_ids.len() as u64).sum(),
    }
}
