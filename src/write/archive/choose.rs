//! Which instants leave the active timeline.
//!
//! The oldest completed writes, down to the number that stays, but none that something still needs: a pending write, the count
//! of delta commits up to a compaction, replaced files that are still there, the metadata table, a savepoint, a view in use.
//! Cleans and rollbacks go with the writes that they lie between (layout 2) or by their own number (layout 1).

use super::settings::ArchiveSettings;
use crate::error::Result;
use crate::format::instant::{Action, Instant, InstantTime, Layout};
use crate::format::plan::CleanPlan;
use crate::format::properties::TableType;
use crate::storage::Storage;
use crate::timeline::Timeline;

/// The completed instants to archive, oldest first; `before` are times that must stay, and all after them.
pub fn instants(
    storage: &dyn Storage,
    timeline: &Timeline,
    settings: &ArchiveSettings,
    before: &[InstantTime],
) -> Result<Vec<Instant>> {
    let writes: Vec<&Instant> = timeline.writes().collect();
    let by_number = timeline.config().layout() != Layout::V2;
    let mut edges = before.to_vec();
    edges.extend(pending(timeline));
    edges.extend(for_compaction(timeline, settings));
    edges.extend(for_replaced(storage, timeline)?);
    let savepoints: Vec<InstantTime> = timeline.savepoints().collect();
    if !settings.beyond_savepoint {
        edges.extend(savepoints.first());
    }
    let edge = edges.into_iter().min();
    let goes = |time: InstantTime| edge.is_none_or(|edge| time < edge);
    let count = if writes.len() > settings.max { writes.len() - settings.min } else { 0 };
    let old = writes.into_iter().filter(|w| goes(w.requested) && !savepoints.contains(&w.requested)).take(count);
    let mut chosen: Vec<Instant> = old.copied().collect();
    let newest = chosen.last().map(|w| w.requested);
    for action in [Action::Clean, Action::Rollback] {
        let others: Vec<&Instant> = timeline.completed().filter(|i| i.action == action).collect();
        // The newest clean stays: the next one goes on from it.
        let left = others.len().saturating_sub(1);
        let old = match by_number {
            true if others.len() > settings.max => others.len() - settings.min,
            true => 0,
            false => left,
        };
        let passed = |i: &Instant| if by_number { goes(i.requested) } else { newest.is_some_and(|n| i.requested < n) };
        chosen.extend(others.into_iter().take(old.min(left)).filter(|i| passed(i)));
    }
    chosen.sort_by_key(|i| (i.requested, i.action));
    Ok(chosen)
}

/// The newest completed write before the first pending one; that one itself if there is none.
fn pending(timeline: &Timeline) -> Option<InstantTime> {
    let first = timeline.pending().find(|i| i.action.completes_as().is_write())?.requested;
    Some(timeline.writes().rev().find(|w| w.requested < first).map_or(first, |w| w.requested))
}

/// The first of the delta commits that are needed to see that a compaction is due.
fn for_compaction(timeline: &Timeline, settings: &ArchiveSettings) -> Option<InstantTime> {
    if timeline.config().table_type() != TableType::MergeOnRead {
        return None;
    }
    let compaction = timeline.completed().rfind(|i| i.action == Action::Commit);
    let since = |i: &&Instant| compaction.is_none_or(|c| i.completion.unwrap_or(i.requested) > c.requested);
    let deltas: Vec<&Instant> =
        timeline.instants().iter().filter(|i| i.action == Action::DeltaCommit).filter(since).collect();
    let place = deltas.len().checked_sub(settings.compact_after);
    match place.and_then(|place| deltas.get(place)) {
        Some(first) => Some(first.requested),
        None => compaction.or(deltas.first().copied()).map(|i| i.requested),
    }
}

/// The first replacement that the last clean did not get to.
fn for_replaced(storage: &dyn Storage, timeline: &Timeline) -> Result<Option<InstantTime>> {
    let replacing = |i: &&Instant| matches!(i.action, Action::ReplaceCommit | Action::Clustering);
    let Some(clean) = timeline.completed().rfind(|i| i.action == Action::Clean) else {
        return Ok(timeline.instants().iter().find(replacing).map(|i| i.requested));
    };
    let requested = Instant { state: crate::format::instant::State::Requested, completion: None, ..*clean };
    let plan = match timeline.read(storage, &requested) {
        Ok(bytes) => CleanPlan::parse(&bytes)?,
        Err(e) if e.kind() == crate::ErrorKind::NotFound => CleanPlan::default(),
        Err(e) => return Err(e),
    };
    let bound = plan.earliest.map_or(clean.requested, |e| e.time);
    Ok(timeline.instants().iter().filter(replacing).find(|i| i.requested >= bound).map(|i| i.requested))
}
