//! Which partitions a step of the timeline can have changed.
//!
//! The answer may name too many partitions, never too few: whatever cannot be read or understood makes it "everything".

use super::Snapshot;
use crate::error::Result;
use crate::format::instant::{Action, Instant, InstantTime};
use crate::storage::TablePath;
use std::collections::{BTreeSet, HashSet};

/// Where two snapshots of one table may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Only in these partitions, some of which may be new or gone.
    Partitions(BTreeSet<TablePath>),
    /// Anywhere.
    Everything,
}

/// A step from one snapshot to a newer one.
#[derive(Debug)]
pub(super) struct Step {
    /// The partitions in which they may differ.
    pub changed: Changed,
    /// Something may have happened since that removes partitions.
    pub may_drop_partitions: bool,
}

/// What lies between two snapshots.
pub(super) fn step(new: &Snapshot, old: &Snapshot) -> Step {
    let before: HashSet<Key> = old.timeline.completed().map(key).collect();
    let drops = |a: Action| matches!(a, Action::Clean | Action::Rollback | Action::Restore);
    let may_drop_partitions = new.timeline.completed().any(|i| drops(i.action) && !before.contains(&key(i)));
    let changed = match partitions(new, old, &before) {
        Ok(Some(partitions)) => Changed::Partitions(partitions),
        Ok(None) => Changed::Everything,
        Err(error) => {
            tracing::debug!(%error, "the changed partitions cannot be told; all are looked at again");
            Changed::Everything
        }
    };
    Step { changed, may_drop_partitions }
}

fn partitions(new: &Snapshot, old: &Snapshot, before: &HashSet<Key>) -> Result<Option<BTreeSet<TablePath>>> {
    if new.config.properties() != old.config.properties() || new.pinned != old.pinned {
        return Ok(None);
    }
    let after: HashSet<Key> = new.timeline.completed().map(key).collect();
    let mut gone = before.difference(&after).map(|k| k.0).peekable();
    if gone.peek().is_some() {
        let first = new.timeline.completed().map(|i| i.requested).min();
        let undoes = |i: &Instant| matches!(i.action, Action::Rollback | Action::Restore) && !before.contains(&key(i));
        // Archival takes instants from the old end and leaves some. One that is gone from the middle was undone, as the oldest
        // may have been where something was; and where all are gone, the table may have been made anew.
        if gone.any(|time| Some(time) >= first) || new.timeline.completed().any(undoes) || before.is_disjoint(&after) {
            return Ok(None);
        }
    }
    let mut touched = BTreeSet::new();
    for instant in new.timeline.completed().filter(|i| !before.contains(&key(i))) {
        if !touched_by(new, instant, &mut touched)? {
            return Ok(None);
        }
    }
    Ok(Some(touched))
}

type Key = (InstantTime, Action);

fn key(instant: &Instant) -> Key {
    (instant.requested, instant.action)
}

/// Adds the partitions in which a completed instant changed what is listed; false where that may be any.
fn touched_by(snapshot: &Snapshot, instant: &Instant, touched: &mut BTreeSet<TablePath>) -> Result<bool> {
    match instant.action {
        // Cleaning and rollbacks remove files that are not listed: older versions, and what was never committed.
        Action::Clean | Action::Rollback | Action::Savepoint | Action::Indexing => return Ok(true),
        action if !action.is_write() => return Ok(false),
        _ => {}
    }
    let metadata = snapshot.timeline.commit_metadata(&*snapshot.storage, instant)?;
    if metadata.empty {
        return Ok(false);
    }
    let written = metadata.written.iter().map(|p| &p.partition);
    for partition in written.chain(metadata.replaced.iter().map(|r| &r.partition)) {
        touched.insert(TablePath::parse(partition)?);
    }
    Ok(true)
}
