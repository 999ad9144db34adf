//! The timeline: what happened to a table, and when.
//!
//! A [`Timeline`] is the state of the timeline folder at the moment it was listed: an immutable value that is cheap to clone.
//! What an instant's file holds is read when it is asked for and kept. Nothing here decides which files a view shows; that is
//! `view`'s, which asks [`Timeline::is_committed`] and reads the few instants that it must.
//!
//! The metadata table is a Hudi table of its own, so a timeline is loaded for a root: the table's base, or `.hoodie/metadata`.
//! Format: docs/format.md, "Instants".

mod archive;
mod config;
mod content;
mod history;
mod load;
mod update;
pub mod write;

pub use config::load_config;
pub use content::Replacement;
pub use update::update_config;
pub use write::InstantWriter;

use crate::error::Result;
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::properties::TableConfig;
use crate::storage::TablePath;
use std::fmt;
use std::sync::Arc;

/// The instants of a table, as they were when the timeline folder was listed.
#[derive(Clone)]
pub struct Timeline(Arc<Inner>);

struct Inner {
    root: TablePath,
    config: TableConfig,
    /// Where active instants lie.
    folder: TablePath,
    /// One entry an instant with its highest state; by requested time, then by the action that it completes as.
    instants: Vec<Instant>,
    /// Requested times of completed writes, ascending.
    written: Vec<InstantTime>,
    /// Requested times of writes that are not completed, ascending.
    unwritten: Vec<InstantTime>,
    /// Where the timeline begins: older instants have been archived, and count as completed.
    first: Option<InstantTime>,
    contents: Arc<content::Contents>,
}

impl Timeline {
    /// Lists the timeline of the table at `root`. A table without a timeline folder has no instants.
    pub fn load(storage: &dyn crate::storage::Storage, root: &TablePath, config: &TableConfig) -> Result<Timeline> {
        load::load(storage, root, config, None)
    }

    /// Lists it again. What is known of instants that are still there is kept, so that a refresh costs one listing.
    pub fn reload(&self, storage: &dyn crate::storage::Storage) -> Result<Timeline> {
        load::load(storage, &self.0.root, &self.0.config, Some(self))
    }

    /// The root of the table whose timeline this is.
    pub fn root(&self) -> &TablePath {
        &self.0.root
    }

    /// The settings that it was loaded with.
    pub fn config(&self) -> &TableConfig {
        &self.0.config
    }

    /// The folder of the active instants.
    pub fn folder(&self) -> &TablePath {
        &self.0.folder
    }

    /// Every active instant, oldest first: by requested time, then action. Each in its highest state.
    pub fn instants(&self) -> &[Instant] {
        &self.0.instants
    }

    /// The completed instants, oldest first.
    pub fn completed(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.0.instants.iter().filter(|i| i.is_completed())
    }

    /// The instants that are requested or running, oldest first.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.0.instants.iter().filter(|i| !i.is_completed())
    }

    /// The completed commits, delta commits and replace commits, oldest first.
    pub fn writes(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.completed().filter(|i| i.action.is_write())
    }

    /// The newest completed write by requested time: the instant that the latest view is of.
    pub fn latest_write(&self) -> Option<InstantTime> {
        self.0.written.last().copied()
    }

    /// The newest completed write at or before a moment, by requested time.
    pub fn latest_write_at(&self, moment: InstantTime) -> Option<InstantTime> {
        let end = self.0.written.partition_point(|t| *t <= moment);
        self.0.written.get(..end)?.last().copied()
    }

    /// The completed commit, delta commit or replace commit with that time. A time with `999` milliseconds also finds the
    /// instant of a release that knew no milliseconds.
    pub fn find_write(&self, time: InstantTime) -> Option<&Instant> {
        let find = |time: InstantTime| {
            let start = self.0.instants.partition_point(|i| i.requested < time);
            let same = self.0.instants.iter().skip(start).take_while(move |i| i.requested == time);
            same.into_iter().find(|i| i.is_completed() && i.action.is_write())
        };
        find(time).or_else(|| find(time.without_appended_millis()?))
    }

    /// True if a completed write has that time (with the rule of [`Timeline::find_write`]).
    pub fn contains_completed(&self, time: InstantTime) -> bool {
        let contains = |time: InstantTime| self.0.written.binary_search(&time).is_ok();
        contains(time) || time.without_appended_millis().is_some_and(contains)
    }

    /// True if what the instant wrote belongs to the table: it is completed, or it is older than the active timeline.
    ///
    /// Archived instants are not looked up: whatever failed before the timeline's start was rolled back, and its files removed,
    /// before archival passed it. An instant that is still pending is never committed, wherever the timeline starts.
    pub fn is_committed(&self, time: InstantTime) -> bool {
        self.contains_completed(time)
            || (self.0.first.is_some_and(|first| time < first) && self.0.unwritten.binary_search(&time).is_err())
    }

    /// True if a write of that time is requested or running.
    pub fn is_pending_write(&self, time: InstantTime) -> bool {
        self.0.unwritten.binary_search(&time).is_ok()
    }

    /// The first completed write that was not left behind by archival for the sake of a savepoint: older instants are archived.
    pub fn first(&self) -> Option<InstantTime> {
        self.0.first
    }

    /// The commits that are kept from cleaning, oldest first.
    pub fn savepoints(&self) -> impl Iterator<Item = InstantTime> {
        self.completed().filter(|i| i.action == Action::Savepoint).map(|i| i.requested)
    }

    /// What was found out of order while reading, a line each; listed once however often it is met.
    pub fn warnings(&self) -> Vec<String> {
        self.0.contents.warnings()
    }

    /// Adds a line to [`Timeline::warnings`].
    pub fn warn(&self, line: String) {
        self.0.contents.warn(line);
    }

    /// True if both hold the same instants in the same states.
    pub fn same_instants(&self, other: &Timeline) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.root == other.0.root && self.0.instants == other.0.instants)
    }

    /// The requested state's twin of an instant, whose file holds its plan.
    fn requested_of(instant: &Instant) -> Instant {
        Instant { state: State::Requested, completion: None, ..*instant }
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("root", &self.0.root)
            .field("instants", &self.0.instants.len())
            .field("first", &self.0.first)
            .field("latest", &self.latest_write())
            .finish()
    }
}
