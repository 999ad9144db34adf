//! [`Transaction`]: one write from its instant to its commit or its end.
//!
//! Requested and beating, then inflight with its work profile; a marker before each data file; and under the table's lock the check
//! for conflicts, files of retries that the commit does not name deleted, the metadata table, the completed file. Up to
//! that last step a crash, or an error, leaves nothing that any reader sees, and markers by which the next writer cleans up.
//!
//! A transaction that is dropped before it was committed is aborted: what it wrote is rolled back.
//! Format: docs/format.md, "Writing".

use super::conflict::{self, Touched};
use super::heartbeat::Heartbeat;
use super::markers::{self, Marker, MarkerKind};
use super::rollback;
use super::session::{Critical, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::CommitMetadata;
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::storage::{Removal, TablePath};
use crate::timeline::{InstantWriter, Timeline};
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

const METAFILE: &str = ".hoodie_partition_metadata";

/// One write that is under way.
#[derive(Debug)]
pub struct Transaction {
    session: Arc<Session>,
    instants: InstantWriter,
    instant: Instant,
    planned: Timeline,
    beat: Option<Heartbeat>,
    partitions: Mutex<HashSet<String>>,
    rolled_back: Vec<InstantTime>,
    over: bool,
}

/// A write that is committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The completed instant.
    pub instant: Instant,
    /// What it says.
    pub metadata: CommitMetadata,
}

impl Transaction {
    /// Begins a write: failed writes of others are rolled back as the settings say, then there is a new requested instant.
    /// `content` is that of the requested file: empty for commits and delta commits.
    pub fn begin(session: Arc<Session>, action: Action, content: Bytes) -> Result<Transaction> {
        let mut critical = session.critical()?;
        let rolled_back = rollback::failed(&session, &mut critical)?;
        let mut beat = None;
        let instant = critical.request(action, content, |time| {
            // First the beat: whoever sees the instant must see it alive.
            let started = Heartbeat::start(session.storage().clone(), time, session.beat())?;
            if let Some(unused) = beat.replace(started) {
                Heartbeat::end(unused)?;
            }
            Ok(())
        })?;
        let (planned, instants) = (critical.timeline().clone(), critical.instants().clone());
        drop(critical);
        Ok(Transaction::new(session, instants, instant, planned, beat, rolled_back))
    }

    /// Takes up an instant that was requested before, such as a compaction. One that is inflight must have failed: it is for the caller
    /// to see that it was rolled back to requested.
    pub fn resume(session: Arc<Session>, requested: &Instant) -> Result<Transaction> {
        let critical = session.critical()?;
        let there = critical.timeline().pending().find(|i| i.requested == requested.requested);
        if there.is_none_or(|i| i.state != State::Requested || i.action != requested.action) {
            let message = format!("the {requested} is not there to be taken up: it is {there:?} now");
            return Err(Error::new(ErrorKind::Conflict, message).at_instant(requested.requested));
        }
        let beat = Heartbeat::start(session.storage().clone(), requested.requested, session.beat())?;
        let (planned, instants) = (critical.timeline().clone(), critical.instants().clone());
        // Still under the lock, so that nobody else takes it up.
        let instant = instants.start(requested, Bytes::new())?;
        drop(critical);
        Ok(Transaction::new(session, instants, instant, planned, Some(beat), Vec::new()))
    }

    fn new(
        session: Arc<Session>,
        instants: InstantWriter,
        instant: Instant,
        planned: Timeline,
        beat: Option<Heartbeat>,
        rolled_back: Vec<InstantTime>,
    ) -> Transaction {
        let partitions = Mutex::default();
        Transaction { session, instants, instant, planned, beat, partitions, rolled_back, over: false }
    }

    /// The write's time.
    pub fn instant(&self) -> InstantTime {
        self.instant.requested
    }

    /// The write's action while it is pending.
    pub fn action(&self) -> Action {
        self.instant.action
    }

    /// The timeline as it was when the write began. What is planned on it, or on a later one, is checked for conflicts
    /// with all that is not on it.
    pub fn timeline(&self) -> &Timeline {
        &self.planned
    }

    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Failed writes that were rolled back when this one began.
    pub fn rolled_back(&self) -> &[InstantTime] {
        &self.rolled_back
    }

    /// Makes the instant inflight; `profile` is what it is going to write, as far as that is known. Before the first file.
    pub fn start(&mut self, profile: &CommitMetadata) -> Result<()> {
        let content = profile.encode(self.planned.config().layout(), self.instant.action)?;
        self.instant = self.instants.start(&self.instant, content)?;
        Ok(())
    }

    /// Writes down that a file is about to be written, and makes its partition one. Before the file is created.
    pub fn marker_for(&self, partition: &str, file: &str, kind: MarkerKind) -> Result<()> {
        self.markers_for(&[Marker { partition: partition.to_owned(), file: file.to_owned(), kind }])
    }

    /// [`Transaction::marker_for`] for many files at once, which object stores overlap.
    pub fn markers_for(&self, markers: &[Marker]) -> Result<()> {
        if self.instant.state != State::Inflight {
            return Err(Error::internal(format!("a file of the {} before it is inflight", self.instant)));
        }
        markers::create(&**self.session.storage(), self.instant.requested, markers)?;
        markers.iter().try_for_each(|m| self.make_partition(&m.partition))
    }

    /// Creates the file that makes a folder a partition, if it is not there.
    fn make_partition(&self, partition: &str) -> Result<()> {
        if self.lock_partitions().contains(partition) {
            return Ok(());
        }
        let storage = self.session.storage();
        let path = TablePath::parse(partition)?.join(METAFILE)?;
        match storage.stat(&path) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let depth = if partition.is_empty() { 0 } else { partition.split('/').count() };
                let text =
                    format!("#partition metadata\ncommitTime={}\npartitionDepth={depth}\n", self.instant.requested);
                match storage.create(&path, Bytes::from(text)) {
                    // Another writer has just made it.
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                    other => drop(other.map_err(|e| e.in_partition(partition))?),
                }
            }
            Err(e) => return Err(e.in_partition(partition)),
        }
        self.lock_partitions().insert(partition.to_owned());
        Ok(())
    }

    fn lock_partitions(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits. `exclusive` are partitions that the write replaces as a whole, in which nobody else may have written
    /// meanwhile. `update` is called in the critical section, when nothing stands against the commit any more: it puts the
    /// changes into the metadata table, by [`Critical::timeline`].
    ///
    /// On an error nothing is visible and the write has been rolled back, or will be by the next one; only where a store
    /// stopped answering at the commit point itself the outcome is not known, and the error says so.
    pub fn commit(
        mut self,
        metadata: CommitMetadata,
        exclusive: &[String],
        update: impl FnOnce(&Critical) -> Result<()>,
    ) -> Result<Committed> {
        match self.try_commit(&metadata, exclusive, update) {
            Ok(instant) => {
                self.over = true;
                self.tidy();
                Ok(Committed { instant, metadata })
            }
            Err(Failed::Before(e)) => {
                let error = e.at_instant(self.instant.requested);
                Err(match self.roll_back() {
                    Ok(()) => error,
                    Err(undo) => {
                        tracing::warn!(error = %undo, instant = %self.instant.requested, "a failed write was not rolled back");
                        error
                    }
                })
            }
            // It may be committed: nothing of it may be removed.
            Err(Failed::At(e)) => {
                self.over = true;
                Err(e.at_instant(self.instant.requested))
            }
        }
    }

    fn try_commit(
        &self,
        metadata: &CommitMetadata,
        exclusive: &[String],
        update: impl FnOnce(&Critical) -> Result<()>,
    ) -> Result<Instant, Failed> {
        let content = metadata.encode(self.planned.config().layout(), self.instant.action.completes_as());
        let content = Bytes::from(content.map_err(Failed::Before)?);
        let critical = self.session.critical().map_err(Failed::Before)?;
        self.prepare(&critical, metadata, exclusive).map_err(Failed::Before)?;
        update(&critical).map_err(Failed::Before)?;
        critical.check().map_err(Failed::Before)?;
        critical.complete(&self.instant, content).map_err(|e| match e.kind() {
            ErrorKind::Unavailable | ErrorKind::Internal if !self.surely_not_completed() => Failed::At(e),
            _ => Failed::Before(e),
        })
    }

    /// A request to a store may still take effect after its answer was given up; a system call has done all it will.
    fn surely_not_completed(&self) -> bool {
        !self.session.storage().is_object_store() && matches!(self.instants.is_completed(&self.instant), Ok(false))
    }

    /// All that must be right before the metadata table is touched.
    fn prepare(&self, critical: &Critical, metadata: &CommitMetadata, exclusive: &[String]) -> Result<()> {
        self.still_ours(critical.timeline())?;
        let storage = &**self.session.storage();
        if !matches!(self.instant.action, Action::Compaction | Action::LogCompaction) {
            let touched = Touched::of(metadata, exclusive.iter().cloned());
            conflict::check(storage, &self.instant, &touched, &self.planned, critical.timeline())?;
        }
        self.delete_strays(metadata)
    }

    /// Somebody who took this write for dead may have rolled it back.
    fn still_ours(&self, now: &Timeline) -> Result<()> {
        let same = |i: &&Instant| {
            i.requested == self.instant.requested && i.action.completes_as() == self.instant.action.completes_as()
        };
        let rolled_back = match now.instants().iter().find(same) {
            Some(there) if there.state == State::Inflight => return Ok(()),
            Some(there) if there.is_completed() => "was completed",
            _ => "was rolled back",
        };
        Err(Error::new(
            ErrorKind::Conflict,
            format!("the {} {rolled_back} by another writer, which took this one for dead", self.instant),
        )
        .with_hint(
            "this process was stopped for longer than hoodie.client.heartbeat.tolerable.misses allows; write again",
        ))
    }

    /// Deletes the files of retries: those with a marker that the commit does not name.
    fn delete_strays(&self, metadata: &CommitMetadata) -> Result<()> {
        let storage = self.session.storage();
        let Some(markers) = markers::read(&**storage, self.instant.requested)? else { return Ok(()) };
        let stats = metadata.written.iter().flat_map(|p| &p.stats);
        let named: HashSet<&str> = stats.filter_map(|s| s.path.as_deref()).collect();
        let mut strays = Vec::new();
        for marker in &markers {
            let path = marker.path()?;
            if !named.contains(path.as_str()) {
                strays.push(Removal::data_file(&path)?);
            }
        }
        storage.delete_many(&strays).into_iter().collect()
    }

    /// What is left to do once the write is committed: nothing of it matters to readers.
    fn tidy(&mut self) {
        let storage = &**self.session.storage();
        let ended = self.beat.take().map_or(Ok(()), Heartbeat::end);
        let cleaned = markers::delete(storage, self.instant.requested);
        for error in [ended, cleaned].into_iter().filter_map(Result::err) {
            tracing::warn!(%error, instant = %self.instant.requested, "a committed write left something behind");
        }
    }

    /// Gives the write up: what it wrote is rolled back.
    pub fn abort(mut self) -> Result<()> {
        self.roll_back()
    }

    fn roll_back(&mut self) -> Result<()> {
        self.over = true;
        // Whatever comes of it, it must not look alive any more.
        let beat = self.beat.take();
        if self.instant.state == State::Requested
            && !matches!(self.instant.action, Action::Compaction | Action::LogCompaction)
        {
            // Nothing was written.
            self.instants.delete(&self.instant)?;
            return beat.map_or(Ok(()), Heartbeat::end);
        }
        drop(beat);
        let mut critical = self.session.critical()?;
        rollback::pending(&self.session, &mut critical, &self.instant).map(drop)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.over
            && let Err(error) = self.roll_back()
        {
            tracing::warn!(%error, instant = %self.instant.requested, "a write that was given up was not rolled back");
        }
    }
}

/// Why a commit did not come about.
enum Failed {
    /// For certain not committed.
    Before(Error),
    /// At the commit point, with an unknown outcome.
    At(Error),
}
