//! Requesting a compaction, under the table's lock.

use super::choose::{Settings, Since};
use crate::error::Result;
use crate::format::instant::{Action, Instant};
use crate::format::plan::CompactionPlan;
use crate::storage::Storage;
use crate::table::{FileSlice, Snapshot, Table};
use crate::timeline::Timeline;
use crate::write::session::Session;
use bytes::Bytes;
use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// Requests a compaction of what has most to gain, if it is due or `forced`; `None` if it is not, or if there is nothing to
/// compact.
pub(super) fn schedule(session: &Session, table: &Table, forced: bool) -> Result<Option<Instant>> {
    let settings = Settings::new(session.options())?;
    table.refresh()?;
    if !forced && !settings.is_due(since(table.snapshot().timeline())) {
        return Ok(None);
    }
    let mut critical = session.critical()?;
    table.refresh()?;
    let snapshot = table.snapshot();
    if !forced && !settings.is_due(since(snapshot.timeline())) {
        return Ok(None);
    }
    let plan = CompactionPlan { operations: settings.choose(free_slices(&snapshot)?), ..CompactionPlan::default() };
    if plan.operations.is_empty() {
        return Ok(None);
    }
    critical.check()?;
    let requested = critical.request(Action::Compaction, Bytes::from(plan.encode()?), |_| Ok(()))?;
    critical.reload()?;
    Ok(Some(requested))
}

/// Slices with logs that no pending service works on.
fn free_slices(snapshot: &Snapshot) -> Result<Vec<FileSlice>> {
    let clustered = clustered(&**snapshot.storage(), snapshot.timeline())?;
    let mut free = Vec::new();
    for partition in snapshot.partitions()?.iter() {
        let slices = snapshot.file_slices(partition)?.into_iter();
        free.extend(slices.filter(|s| {
            let busy = s.compaction.is_some() || clustered.contains(&(s.partition.clone(), s.file_id.clone()));
            !busy && !s.log_files.is_empty()
        }));
    }
    Ok(free)
}

/// The groups of pending clusterings.
fn clustered(storage: &dyn Storage, timeline: &Timeline) -> Result<HashSet<(String, String)>> {
    let pending: Vec<&Instant> =
        timeline.pending().filter(|i| matches!(i.action, Action::ReplaceCommit | Action::Clustering)).collect();
    let requested = timeline.requested_replaces(storage, &pending)?;
    let groups = requested.iter().flatten().flat_map(|r| r.clustered.iter().flatten());
    Ok(groups.map(|g| (g.partition.clone(), g.file_id.clone())).collect())
}

/// What has happened since the last compaction. In a merge-on-read table the completed commits are compactions.
fn since(timeline: &Timeline) -> Since {
    let last = timeline.completed().rfind(|i| i.action == Action::Commit);
    let deltas = || timeline.completed().filter(|i| i.action == Action::DeltaCommit);
    let after = |time| deltas().filter(|i| time < Some(i.requested)).count() as u64;
    let pending = timeline.pending().filter(|i| i.action == Action::Compaction).map(|i| i.requested).max();
    let done = last.map(|i| i.requested);
    let start = last.or_else(|| deltas().next()).and_then(|i| i.requested.epoch_ms(timeline.config().zone()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let elapsed = start.map_or(0, |start| now.saturating_sub(u128::try_from(start).unwrap_or(0)) / 1000);
    Since {
        commits: after(done),
        commits_after_request: after(done.max(pending)),
        seconds: u64::try_from(elapsed).unwrap_or(u64::MAX),
    }
}
