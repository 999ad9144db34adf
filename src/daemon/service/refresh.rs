//! Looking for commits, and publishing what was found.

use super::{Entry, Service, is_gone, note_warnings, now_ms, open};
use crate::control::problem::Problem;
use crate::control::types::RefreshedTable;
use crate::error::{Error, Result};
use crate::fs::{Invalidation, View};
use crate::storage::{TablePath, discover_tables};
use crate::table::{Snapshot, Table};
use crate::telemetry::event::{Event, EventCode};
use crate::telemetry::label::{RefreshResult, TableState};
use crate::telemetry::metric;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Levels below a warehouse at which tables are looked for.
const DEPTH_MAX: u32 = 6;
/// Longest wait for the kernel to forget what has changed.
const TOLD_MAX: Duration = Duration::from_secs(5);

impl Service {
    /// Looks for commits in one table and shows them. Returns when the mount shows what was found.
    pub fn refresh_table(&self, entry: &Entry) -> RefreshedTable {
        let _one = entry.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let outcome = self.try_refresh(entry);
        let result = match &outcome {
            Ok(true) => RefreshResult::Published,
            Ok(false) => RefreshResult::Unchanged,
            Err(_) => RefreshResult::Failed,
        };
        metric::REFRESHES.inc(result);
        metric::REFRESH_DURATION.observe_since((), start);
        self.note_outcome(entry, outcome.as_ref().err());
        RefreshedTable {
            table: entry.name.clone(),
            result: result.as_str().to_owned(),
            instant: self.shown(entry).ok().and_then(|s| s.instant()).map(|i| i.to_string()),
            error: outcome.err().map(|e| Problem::from(&e)),
        }
    }

    /// Looks for commits in every table and, in a warehouse, for new and vanished tables.
    pub fn refresh_all(&self) -> Vec<RefreshedTable> {
        self.discover_again();
        self.entries().iter().map(|entry| self.refresh_table(entry)).collect()
    }

    /// Looks for new and vanished tables of a warehouse; a search that fails leaves an event.
    pub fn discover_again(&self) {
        if self.warehouse
            && let Err(error) = self.discover()
        {
            Event::from_error(EventCode::RefreshFailed, &error).table(self.uri()).record();
        }
    }

    /// True if a new view is shown now.
    fn try_refresh(&self, entry: &Entry) -> Result<bool> {
        let Some(table) = entry.opened_table() else { return self.reopen(entry).map(|()| true) };
        let new = table.refresh()?;
        let snapshot = table.snapshot();
        // A publication that failed last time is made up for, though nothing is new now.
        if new.is_none() && entry.state().published == snapshot.generation() {
            return Ok(false);
        }
        self.publish(entry, &table, &snapshot)?;
        Ok(true)
    }

    fn publish(&self, entry: &Entry, table: &Arc<Table>, snapshot: &Arc<Snapshot>) -> Result<()> {
        note_warnings(table.uri(), snapshot);
        if let Some(mounted) = self.mounted.get() {
            let view: Arc<dyn View> = snapshot.clone();
            let invalidation = mounted.fs.publish(&entry.path, view)?;
            self.tell_kernel(invalidation);
        }
        entry.state().published = snapshot.generation();
        self.wake_keeper();
        metric::GENERATION.add((), 1);
        metric::NEWEST_COMMIT.raise((), now_ms() / 1000);
        let instant = snapshot.instant().map(|i| i.to_string());
        tracing::info!(table = entry.name, instant, generation = snapshot.generation(), "published");
        Ok(())
    }

    fn tell_kernel(&self, invalidation: Invalidation) {
        let Some(mounted) = self.mounted.get() else { return };
        if !invalidation.is_empty() && !mounted.session.notify(invalidation).wait(TOLD_MAX) {
            tracing::warn!("the kernel has not dropped what changed within {} s", TOLD_MAX.as_secs());
        }
    }

    /// Tries a table again that could not be opened.
    fn reopen(&self, entry: &Entry) -> Result<()> {
        let storage = if entry.path.is_root() { self.root.clone() } else { self.root.rooted_at(&entry.path)? };
        let table = open(storage, &self.options)?;
        if let Some(mounted) = self.mounted.get() {
            self.tell_kernel(mounted.fs.add_table(&entry.path, table.clone())?);
        }
        let mut state = entry.state();
        state.published = table.snapshot().generation();
        state.table = Some(table);
        Ok(())
    }

    /// Remembers how a refresh ended. A failure that repeats is logged once: its event only counts.
    fn note_outcome(&self, entry: &Entry, error: Option<&Error>) {
        if let Some(error) = error {
            let code = if entry.opened_table().is_some() { EventCode::RefreshFailed } else { EventCode::TableFailed };
            Event::from_error(code, error).table(&entry.name).record();
        }
        let mut state = entry.state();
        if error.is_none() && state.error.is_some() {
            tracing::info!(table = entry.name, "works again");
        }
        state.error = error.map(|e| Problem { table: Some(entry.name.clone()), ..Problem::from(e) });
        state.refreshed_ms = Some(now_ms());
        drop(state);
        self.count_states();
    }

    fn count_states(&self) {
        for state in TableState::ALL {
            let count = self.entries().iter().filter(|e| e.table_state() == *state).count();
            metric::TABLES.set(*state, i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Brings the list of tables in line with what a warehouse holds now.
    pub(super) fn discover(&self) -> Result<()> {
        let found = discover_tables(&*self.root, DEPTH_MAX)?;
        if found.iter().any(TablePath::is_root) {
            return Err(Error::invalid(format!("{} is a table, not a warehouse", self.uri()))
                .with_hint("mount it without --warehouse"));
        }
        let known: BTreeSet<TablePath> = self.entries().iter().map(|e| e.path.clone()).collect();
        for path in found.iter().filter(|p| !known.contains(p)) {
            self.add(path)?;
        }
        for path in known.iter().filter(|p| found.binary_search(p).is_err()) {
            self.drop_table(path);
        }
        self.count_states();
        Ok(())
    }

    pub(super) fn add(&self, path: &TablePath) -> Result<()> {
        let name = path.as_str().to_owned();
        let opened = self.root.rooted_at(path).and_then(|storage| open(storage, &self.options));
        let entry = match opened {
            Ok(table) => Entry::opened(name, path.clone(), table),
            Err(error) => {
                Event::from_error(EventCode::TableFailed, &error).table(&name).record();
                Entry::failed(name, path.clone(), format!("{}/{path}", self.uri()), &error)
            }
        };
        if let Some(mounted) = self.mounted.get() {
            let invalidation = match entry.opened_table() {
                Some(table) => mounted.fs.add_table(path, table)?,
                None => mounted.fs.add_failed_table(path, entry.failure())?,
            };
            self.tell_kernel(invalidation);
            tracing::info!(table = entry.name, "found");
        }
        self.insert(entry);
        Ok(())
    }

    fn drop_table(&self, path: &TablePath) {
        let gone = self.root.list(path).map(|entries| !entries.iter().any(|e| e.name == ".hoodie"));
        // What cannot be listed is not gone: it stays, and its refresh fails and says so.
        if !matches!(&gone, Ok(true)) && !gone.is_err_and(|e| is_gone(&e)) {
            return;
        }
        if let Some(mounted) = self.mounted.get() {
            self.tell_kernel(mounted.fs.remove_table(path));
        }
        self.remove(path.as_str());
        tracing::info!(table = path.as_str(), "gone");
    }
}

impl Entry {
    /// How the table stands.
    pub fn table_state(&self) -> TableState {
        let state = self.state();
        match (&state.table, &state.error) {
            (None, _) => TableState::Failed,
            (Some(_), Some(_)) => TableState::Stale,
            (Some(_), None) => TableState::Serving,
        }
    }
}
