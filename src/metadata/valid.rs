//! Whose records count: the instants whose log blocks a reader of the metadata table may see.
//!
//! The rule is Hudi's, with two differences. Blocks of instants that were rolled back on the data table need no rule of
//! their own here: of the `files` partition they add nothing that the rollback's own record does not take away. And an
//! instant that began after the data table's timeline was loaded is left out, so that a listing never runs ahead of the
//! timeline that it is combined with.

use crate::error::{Error, Result};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::timeline::Timeline;
use std::collections::HashSet;

/// How the instants of bootstraps begin, 14 zeros: no data table instant does.
const SOLO: &str = "00000000000000";
/// Digits of an instant time; the metadata table's own services append more to a data table instant's time.
const DIGITS: usize = 17;

/// The instants of both tables that matter.
pub(super) struct ValidInstants<'a> {
    metadata: &'a Timeline,
    completed: HashSet<InstantTime>,
    pending: HashSet<InstantTime>,
    /// Completed delta commits of the metadata table.
    delta_commits: HashSet<InstantTime>,
    /// The newest instant of the data table, in whatever state.
    newest: Option<InstantTime>,
}

impl<'a> ValidInstants<'a> {
    /// `data` must have been loaded before `metadata`.
    pub fn new(data: &Timeline, metadata: &'a Timeline) -> Self {
        let of_action = |i: &&Instant| i.action.completes_as() == Action::DeltaCommit;
        ValidInstants {
            metadata,
            completed: data.completed().map(|i| i.requested).collect(),
            pending: data.pending().map(|i| i.requested).collect(),
            delta_commits: metadata.completed().filter(of_action).map(|i| i.requested).collect(),
            newest: data.instants().last().map(|i| i.requested),
        }
    }

    /// True if the records of a log block of that instant count.
    pub fn contains(&self, time: &InstantTime) -> bool {
        if !self.metadata.is_committed(*time) {
            return false;
        }
        self.completed.contains(time)
            || (self.delta_commits.contains(time) && !self.pending.contains(time) && self.is_known(time))
    }

    fn is_known(&self, time: &InstantTime) -> bool {
        let text = time.as_str();
        if text.starts_with(SOLO) {
            return true;
        }
        let main = text.get(..DIGITS).unwrap_or(text);
        self.newest.is_some_and(|newest| main <= newest.as_str())
    }
}

/// Fails if the metadata table does not know a completed write or clean of the data table.
pub(super) fn check_maintained(data: &Timeline, metadata: &Timeline) -> Result<()> {
    let started = metadata.completed().filter(|i| i.requested.as_str().starts_with(SOLO)).filter_map(|i| i.completion);
    let started = started.min();
    for instant in data.completed().filter(|i| i.action.is_write() || i.action == Action::Clean) {
        // Older than its start: listed from storage when it was made. Layout 1 names the start after the newest instant
        // at that time, so that older ones count as archived.
        let before_start = matches!((instant.completion, started), (Some(at), Some(start)) if at < start);
        if !before_start && !metadata.is_committed(instant.requested) {
            return Err(Error::corrupt(format!(
                "metadata table does not know {} {}: it was not maintained by every writer",
                instant.action, instant.requested
            ))
            .with_hint("let Hudi rebuild it: delete it with Hudi's CLI (metadata delete), or write once without it"));
        }
    }
    Ok(())
}
