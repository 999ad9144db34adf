//! Whose records count: the instants whose log blocks a reader of the metadata table may see.
//!
//! The rule is Hudi's, with two differences. Blocks of instants that were rolled back on the data table need no rule of
//! their own here: of the `files` partition they add nothing that the rollback's own record does not take away. And an
//! instant that began after the data table's timeline was loaded is left out, so that a listing never runs ahead of the
//! timeline that it is combined with.

use crate::error::{Error, Result};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::collections::HashSet;

/// How the instants of bootstraps begin, 14 zeros: no data table instant does.
const SOLO: &str = "00000000000000";
/// Digits of an instant time; the metadata table's own services append more to a data table instant's time.
const DIGITS: usize = 17;

/// The metadata table's own account of what it has committed.
pub(super) struct Committed<'a> {
    metadata: &'a Timeline,
    storage: &'a dyn Storage,
    /// The first completed write that is not a bootstrap.
    first: Option<InstantTime>,
}

impl<'a> Committed<'a> {
    pub fn new(storage: &'a dyn Storage, metadata: &'a Timeline) -> Self {
        let first = metadata.writes().map(|i| i.requested).find(|t| !is_bootstrap(t));
        Committed { metadata, storage, first }
    }

    /// True if the instant is completed or archived.
    ///
    /// An index that is created late is bootstrapped under an instant of zeros, so that the timeline seems to begin with
    /// zeros long after its real beginning was archived. What lies between the two is looked up in the history.
    pub fn contains(&self, time: InstantTime) -> Result<bool> {
        if self.metadata.is_committed(time) {
            return Ok(true);
        }
        if is_bootstrap(&time) || self.first.is_none_or(|first| time >= first) || self.metadata.is_pending_write(time) {
            return Ok(false);
        }
        Ok(self.metadata.completion_time(self.storage, time)?.is_some())
    }

    /// When the instant completed, where that is known.
    pub fn completion_time(&self, time: InstantTime) -> Result<Option<InstantTime>> {
        self.metadata.completion_time(self.storage, time)
    }

    /// The timeline.
    pub fn timeline(&self) -> &'a Timeline {
        self.metadata
    }
}

fn is_bootstrap(time: &InstantTime) -> bool {
    time.as_str().starts_with(SOLO)
}

/// The instants of both tables that matter.
pub(super) struct ValidInstants<'a> {
    committed: &'a Committed<'a>,
    data: &'a Timeline,
    completed: HashSet<InstantTime>,
    pending: HashSet<InstantTime>,
    /// Completed delta commits of the metadata table.
    delta_commits: HashSet<InstantTime>,
    /// The newest instant of the data table, in whatever state.
    newest: Option<InstantTime>,
    /// Instants beyond the newest count too.
    ahead: bool,
}

impl<'a> ValidInstants<'a> {
    /// `data` must have been loaded before the metadata table's timeline.
    pub fn new(data: &'a Timeline, committed: &'a Committed<'a>) -> Self {
        let of_action = |i: &&Instant| i.action.completes_as() == Action::DeltaCommit;
        ValidInstants {
            committed,
            data,
            completed: data.completed().map(|i| i.requested).collect(),
            pending: data.pending().map(|i| i.requested).collect(),
            delta_commits: committed.metadata.completed().filter(of_action).map(|i| i.requested).collect(),
            newest: data.instants().last().map(|i| i.requested),
            ahead: false,
        }
    }

    /// What the metadata table keeps for good, for its compaction under the table's lock: all that it committed itself, but for
    /// what is still pending on the data table.
    pub fn committed(data: &'a Timeline, committed: &'a Committed<'a>) -> Self {
        ValidInstants { ahead: true, ..Self::new(data, committed) }
    }

    /// True if the records of a log block of that instant count.
    pub fn contains(&self, time: &InstantTime) -> Result<bool> {
        if !self.committed.contains(*time)? {
            return Ok(false);
        }
        if self.completed.contains(time) {
            return Ok(true);
        }
        // Archived by both: the log of a delta commit that a compaction was nested in outlives the commit's instant.
        let archived = self.data.is_committed(*time);
        let of_its_own = self.delta_commits.contains(time) && self.is_known(time);
        Ok((archived || of_its_own) && !self.pending.contains(time))
    }

    fn is_known(&self, time: &InstantTime) -> bool {
        if self.ahead || is_bootstrap(time) {
            return true;
        }
        let text = time.as_str();
        let main = text.get(..DIGITS).unwrap_or(text);
        self.newest.is_some_and(|newest| main <= newest.as_str())
    }
}

/// Fails if the metadata table does not know a completed write or clean of the data table.
pub(super) fn check_maintained(data: &Timeline, committed: &Committed<'_>) -> Result<()> {
    let bootstraps = committed.metadata.completed().filter(|i| is_bootstrap(&i.requested));
    let started = bootstraps.filter_map(|i| i.completion).min();
    for instant in data.completed().filter(|i| i.action.is_write() || i.action == Action::Clean) {
        // Older than its start: listed from storage when it was made. Layout 1 names the start after the newest instant
        // at that time, so that older ones count as archived.
        let before_start = matches!((instant.completion, started), (Some(at), Some(start)) if at < start);
        if !before_start && !committed.contains(instant.requested)? {
            return Err(Error::corrupt(format!(
                "it does not know {} {}: it was not maintained by every writer",
                instant.action, instant.requested
            ))
            .with_hint("let Hudi rebuild it: delete it with Hudi's CLI (metadata delete), or write once without it"));
        }
    }
    Ok(())
}

/// Fails if a write that both tables have completed since the base file left no block in the log files: a log that was
/// emptied, cut off or lost. Every write puts a record there, if only the list of partitions.
///
/// Only what is newer than the base in every sense is asked for: at the border, what a compaction took is a matter of rules.
pub(super) fn check_logs(
    data: &Timeline,
    committed: &Committed<'_>,
    base: Option<InstantTime>,
    found: &HashSet<InstantTime>,
) -> Result<()> {
    for instant in committed.metadata.completed().filter(|i| i.action.completes_as() == Action::DeltaCommit) {
        let time = instant.requested;
        let after = |base: InstantTime| time > base && instant.completion.is_none_or(|at| at > base);
        let is_write = data.find_write(time).is_some_and(Instant::is_completed);
        if base.is_none_or(after) && is_write && !found.contains(&time) {
            return Err(Error::corrupt(format!(
                "no log file holds the records of {instant}: one was cut off or is gone"
            ))
            .with_hint("let Hudi rebuild it: delete it with Hudi's CLI (metadata delete), or write once without it"));
        }
    }
    Ok(())
}
