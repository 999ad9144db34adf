//! Whether a write may complete, given what others have done since it was planned.
//!
//! Two writes are in conflict if they changed one file group: the first to complete wins. What counts as "since" is not a
//! matter of times but of sets: instants that the timeline has now and did not have when the write was planned.
//!
//! Table services yield to writers: a compaction is no conflict for a write that knew its plan. One that was scheduled after
//! is, in version 6, where a log file names its slice and would be left behind in the old one; from version 8 on a log is
//! sliced by its completion, so only a new base file is in the way. Format: docs/format.md, "Writing".

use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::CommitMetadata;
use crate::format::instant::{Action, Instant};
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::collections::{BTreeMap, BTreeSet};

/// What a write changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Partition and file group → true if it got a new base file or is replaced, false if only log files were added.
    groups: BTreeMap<(String, String), bool>,
    /// Partitions in which nobody else may have changed anything.
    exclusive: BTreeSet<String>,
}

impl Touched {
    /// From what the write is about to commit. `exclusive`: partitions that it replaces as a whole.
    pub fn of(metadata: &CommitMetadata, exclusive: impl IntoIterator<Item = String>) -> Touched {
        let mut touched = Touched { exclusive: exclusive.into_iter().collect(), ..Touched::default() };
        for partition in &metadata.written {
            for stat in &partition.stats {
                let base = !stat.is_log();
                *touched.groups.entry(key(&partition.partition, &stat.file_id)).or_default() |= base;
            }
        }
        for partition in &metadata.replaced {
            for file_id in &partition.file_ids {
                touched.groups.insert(key(&partition.partition, file_id), true);
            }
        }
        touched
    }

    /// The first group of `other` that is also changed here, or that lies in a partition that is exclusive here.
    fn meets(&self, other: &Touched) -> Option<(String, String)> {
        let shared = other.groups.keys().find(|k| self.groups.contains_key(*k) || self.exclusive.contains(&k.0));
        shared.cloned()
    }

    fn writes_base(&self, group: &(String, String)) -> bool {
        self.groups.get(group).copied().unwrap_or(true)
    }
}

/// Hudi compares file ids without the number at their end.
fn key(partition: &str, file_id: &str) -> (String, String) {
    let id = match file_id.rsplit_once('-') {
        Some((head, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => head,
        _ => file_id,
    };
    (partition.to_owned(), id.to_owned())
}

/// Looks for a conflict of the pending write `ours`, which was planned on the timeline `planned` and would complete on `now`.
/// `Conflict` names the other instant, the partition and the file group.
pub fn check(
    storage: &dyn Storage,
    ours: &Instant,
    touched: &Touched,
    planned: &Timeline,
    now: &Timeline,
) -> Result<()> {
    same_table(planned, now)?;
    if let Some(gone) = archived(storage, ours, planned, now)? {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("the {gone}, which was pending when this write was planned, has completed and was archived since"),
        )
        .at_instant(gone.requested)
        .with_hint("send the request again"));
    }
    for other in now.instants() {
        if is_same(other, ours) {
            continue;
        }
        let before = planned.instants().iter().find(|i| is_same(i, other));
        if before.is_some_and(|b| b.is_completed()) {
            continue;
        }
        if let Some(group) = clash(storage, touched, now, other, before)? {
            return Err(conflict(ours, other, &group));
        }
    }
    Ok(())
}

/// A write that was pending, and has completed and left the timeline since: what it changed is not looked up any more. Only
/// instants before the timeline's start can have been archived; others that are gone were rolled back.
fn archived(storage: &dyn Storage, ours: &Instant, planned: &Timeline, now: &Timeline) -> Result<Option<Instant>> {
    let pending = planned.pending().filter(|i| i.action.completes_as().is_write() && !is_same(i, ours));
    let gone = pending.filter(|i| !now.instants().iter().any(|n| is_same(n, i)));
    let gone: Vec<&Instant> = gone.filter(|i| now.first().is_some_and(|first| i.requested < first)).collect();
    if gone.is_empty() {
        return Ok(None);
    }
    let archived = now.archived(storage)?;
    let completed = |i: &&&Instant| archived.iter().any(|a| a.is_completed() && is_same(a, i));
    Ok(gone.iter().find(completed).map(|i| **i))
}

/// The group over which `ours` and `other` clash. `before` is the other instant as it was when ours was planned.
fn clash(
    storage: &dyn Storage,
    touched: &Touched,
    now: &Timeline,
    other: &Instant,
    before: Option<&Instant>,
) -> Result<Option<(String, String)>> {
    let logs_are_safe = now.config().version().slices_by_completion_time();
    match other.action {
        Action::Restore if other.is_completed() => Ok(Some((String::new(), String::new()))),
        Action::Commit | Action::DeltaCommit | Action::ReplaceCommit if other.is_completed() => {
            // What was planned with a compaction in sight took its result for granted.
            if before.is_some_and(|b| matches!(b.action, Action::Compaction | Action::LogCompaction)) {
                return Ok(None);
            }
            let metadata = now.commit_metadata(storage, other)?;
            let group = touched.meets(&Touched::of(&metadata, []));
            Ok(group.filter(|g| !(metadata.compacted && logs_are_safe) || touched.writes_base(g)))
        }
        Action::Compaction | Action::LogCompaction if before.is_none() => {
            let Some(plan) = now.compaction_plans(storage, &[other])?.into_iter().next().flatten() else {
                return Ok(None);
            };
            let groups = plan.operations.iter().map(|o| (key(&o.partition, &o.file_id), false)).collect();
            let group = touched.meets(&Touched { groups, exclusive: BTreeSet::new() });
            Ok(group.filter(|g| !logs_are_safe || touched.writes_base(g)))
        }
        // Whenever it was scheduled: what a clustering has planned to replace must not be updated any more.
        Action::Clustering | Action::ReplaceCommit if !other.is_completed() => {
            let Some(plan) = now.requested_replaces(storage, &[other])?.into_iter().next().flatten() else {
                return Ok(None);
            };
            let clustered = plan.clustered.iter().flatten();
            let groups = clustered.map(|g| (key(&g.partition, &g.file_id), false)).collect();
            Ok(touched.meets(&Touched { groups, exclusive: BTreeSet::new() }))
        }
        _ => Ok(None),
    }
}

/// An upgrade, or the table made anew, ends every write that was planned before.
fn same_table(planned: &Timeline, now: &Timeline) -> Result<()> {
    let (before, after) = (planned.config(), now.config());
    if before.version() == after.version() && before.layout() == after.layout() && before.name() == after.name() {
        return Ok(());
    }
    let message = format!(
        "the table was changed from version {} to {} by another writer",
        before.version().code(),
        after.version().code()
    );
    Err(Error::new(ErrorKind::Conflict, message).with_hint("write again: the table is opened anew"))
}

fn is_same(a: &Instant, b: &Instant) -> bool {
    a.requested == b.requested && a.action.completes_as() == b.action.completes_as()
}

fn conflict(ours: &Instant, other: &Instant, (partition, file_id): &(String, String)) -> Error {
    let what = match (other.action, other.is_completed()) {
        (Action::Restore, _) => "the table was restored meanwhile".to_owned(),
        (_, true) => format!("file group {file_id} of partition {partition:?} was changed meanwhile"),
        (_, false) => format!("file group {file_id} of partition {partition:?} is planned to be rewritten"),
    };
    let hint = match other.is_completed() {
        true => "nothing of this write is visible, and it was rolled back; write again on top of the other one",
        false => "let that table service finish, or roll it back, and write again",
    };
    Error::new(ErrorKind::Conflict, format!("{} {} against {other}: {what}", ours.action, ours.requested))
        .in_partition(partition)
        .in_file(file_id)
        .at_instant(other.requested)
        .with_hint(hint)
}
