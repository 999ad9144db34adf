//! What a clean is to delete.
//!
//! Where the last clean says up to which commit it came, only partitions are looked at that commits between its edge and the
//! new one touched; else all of them. A clean that had to leave something behind says so in its extra metadata, and the next
//! one looks at everything again.

use super::super::rollback::base_of;
use super::choose::{Rules, doomed};
use super::held::Held;
use super::settings::{CleanPolicy, CleanSettings};
use crate::error::Result;
use crate::format::file_name::PARTITION_METADATA;
use crate::format::instant::{Action, Instant, InstantTime};
use crate::format::plan::{CleanFile, CleanMetadata, CleanPlan, EarliestRetained, Savepoint};
use crate::storage::{EntryKind, TablePath};
use crate::table::Snapshot;
use crate::timeline::Timeline;
use crate::view::GroupHistory;
use std::collections::{BTreeSet, HashMap, HashSet};

/// In a clean's extra metadata: readers held files that it would have removed.
pub const LEFT_BEHIND: &str = "hudifs.clean.left.behind";
/// Hudi's own key: the savepoints that the clean went by.
const SAVEPOINTS: &str = "savepointed_timestamps";

/// By partition and file group, the oldest slice that a pending compaction reads.
type Needed = HashMap<(String, String), InstantTime>;

/// Makes the plan; it may be empty.
pub fn make(snapshot: &Snapshot, settings: &CleanSettings, held: &Held, now_ms: i64) -> Result<CleanPlan> {
    let (storage, timeline) = (&**snapshot.storage(), snapshot.timeline());
    let mut plan = CleanPlan {
        last_completed: timeline.latest_write().map(|t| t.to_string()).unwrap_or_default(),
        policy: settings.policy.name().to_owned(),
        ..CleanPlan::default()
    };
    let zone = snapshot.config().zone();
    let grace_ms = now_ms - i64::try_from(settings.grace.as_millis()).unwrap_or(i64::MAX);
    let grace = InstantTime::from_epoch_ms(grace_ms.max(0), zone).unwrap_or_else(InstantTime::zero);
    if !matches!(settings.policy, CleanPolicy::Versions(_)) {
        let hours_ms = |hours: u64| now_ms - i64::try_from(hours.saturating_mul(3_600_000)).unwrap_or(i64::MAX);
        let since = |hours| InstantTime::from_epoch_ms(hours_ms(hours).max(0), zone).unwrap_or_else(InstantTime::zero);
        let Some(earliest) = earliest(timeline, settings.policy, since, grace) else { return Ok(plan) };
        plan.earliest = Some(EarliestRetained::from(&earliest));
    }
    let (savepointed, savepoints) = savepoints(snapshot)?;
    if !savepoints.is_empty() {
        plan.extra.insert(SAVEPOINTS.to_owned(), savepoints.join(","));
    }
    let earliest = plan.earliest.as_ref().map(|e| e.time);
    let rules = Rules { policy: settings.policy, earliest, savepointed: &savepointed, grace, held: &held.instants };
    let (needed, base) = (needed(snapshot)?, base_of(storage));
    let mut planner = Planner { snapshot, rules, held, needed, base, plan };
    for partition in &candidates(snapshot, earliest, &savepoints)? {
        snapshot.visit_histories(partition, |_, groups| planner.partition(partition, groups))?;
    }
    Ok(planner.plan)
}

/// A plan in the making.
struct Planner<'p> {
    snapshot: &'p Snapshot,
    rules: Rules<'p>,
    held: &'p Held,
    needed: Needed,
    base: String,
    plan: CleanPlan,
}

/// The oldest commit whose files stay; `None` if there are not enough commits yet.
fn earliest(
    timeline: &Timeline,
    policy: CleanPolicy,
    since: impl Fn(u64) -> InstantTime,
    grace: InstantTime,
) -> Option<Instant> {
    let writes: Vec<&Instant> = timeline.writes().collect();
    let by_policy = match policy {
        CleanPolicy::Commits(retained) => writes.get(writes.len().checked_sub(retained).filter(|n| *n > 0)?)?.requested,
        CleanPolicy::Hours(hours) => writes.iter().find(|w| w.requested >= since(hours))?.requested,
        CleanPolicy::Versions(_) => return None,
    };
    // Nor anything that a running write may have begun with, nor what something young has taken the place of.
    let running = timeline.pending().find(|i| is_write(i.action)).map(|i| i.requested);
    let of_running =
        running.and_then(|at| writes.iter().rev().find(|w| w.requested <= at).map(|w| w.requested).or(Some(at)));
    let young = writes.iter().find(|w| w.requested >= grace).map(|w| w.requested);
    let edge = [Some(by_policy), of_running.filter(|at| *at < by_policy), young].into_iter().flatten().min()?;
    writes.into_iter().find(|w| w.requested == edge).copied()
}

fn is_write(action: Action) -> bool {
    action.completes_as().is_write()
}

/// The names that savepoints keep, and the savepoints.
fn savepoints(snapshot: &Snapshot) -> Result<(HashSet<String>, Vec<String>)> {
    let (mut names, mut times) = (HashSet::new(), Vec::new());
    let timeline = snapshot.timeline();
    for instant in timeline.completed().filter(|i| i.action == Action::Savepoint) {
        let savepoint = Savepoint::parse(&timeline.read(&**snapshot.storage(), instant)?)?;
        names.extend(savepoint.files.into_values().flatten());
        times.push(instant.requested.to_string());
    }
    Ok((names, times))
}

/// What pending compactions, log compactions and clusterings read.
fn needed(snapshot: &Snapshot) -> Result<Needed> {
    let (storage, timeline) = (&**snapshot.storage(), snapshot.timeline());
    let mut needed = Needed::new();
    let pending =
        |actions: &'static [Action]| timeline.pending().filter(|i| actions.contains(&i.action)).collect::<Vec<_>>();
    let compactions = pending(&[Action::Compaction, Action::LogCompaction]);
    for plan in timeline.compaction_plans(storage, &compactions)?.into_iter().flatten() {
        for operation in &plan.operations {
            let from = operation.base_instant.unwrap_or_else(InstantTime::zero);
            let group = (operation.partition.clone(), operation.file_id.clone());
            needed.entry(group).and_modify(|known| *known = from.min(*known)).or_insert(from);
        }
    }
    let clusterings = pending(&[Action::Clustering, Action::ReplaceCommit]);
    for requested in timeline.requested_replaces(storage, &clusterings)?.into_iter().flatten() {
        for group in requested.clustered.iter().flatten() {
            needed.insert((group.partition.clone(), group.file_id.clone()), InstantTime::zero());
        }
    }
    Ok(needed)
}

/// The partitions to look at.
fn candidates(snapshot: &Snapshot, earliest: Option<InstantTime>, savepoints: &[String]) -> Result<Vec<TablePath>> {
    match earliest {
        Some(earliest) => match touched(snapshot, earliest, savepoints)? {
            Some(touched) => Ok(touched),
            None => Ok(snapshot.partitions()?.to_vec()),
        },
        None => Ok(snapshot.partitions()?.to_vec()),
    }
}

/// The partitions touched since the last clean's edge; `None` where that is not known.
fn touched(snapshot: &Snapshot, earliest: InstantTime, savepoints: &[String]) -> Result<Option<Vec<TablePath>>> {
    let (storage, timeline) = (&**snapshot.storage(), snapshot.timeline());
    let Some(last) = timeline.completed().rfind(|i| i.action == Action::Clean) else { return Ok(None) };
    let last = CleanMetadata::parse(&timeline.read(storage, last)?)?;
    let failed = last.partitions.values().any(|p| !p.failed.is_empty());
    let savepoint_gone = last
        .extra
        .get(SAVEPOINTS)
        .is_some_and(|old| old.split(',').filter(|s| !s.is_empty()).any(|old| !savepoints.iter().any(|s| s == old)));
    let from = InstantTime::parse(&last.earliest).filter(|from| timeline.first().is_some_and(|first| *from >= first));
    let (Some(from), false) = (from, failed || savepoint_gone || last.extra.contains_key(LEFT_BEHIND)) else {
        return Ok(None);
    };
    let mut touched = BTreeSet::new();
    for write in timeline.writes().filter(|w| w.requested >= from && w.requested < earliest) {
        let metadata = timeline.commit_metadata(storage, write)?;
        if metadata.empty {
            return Ok(None);
        }
        let replaced = metadata.replaced.iter().map(|r| r.partition.as_str());
        for partition in metadata.written.iter().map(|p| p.partition.as_str()).chain(replaced) {
            touched.insert(TablePath::parse(partition.trim_matches('/'))?);
        }
    }
    let known = snapshot.partitions()?;
    Ok(Some(touched.into_iter().filter(|p| known.binary_search(p).is_ok()).collect()))
}

impl Planner<'_> {
    fn partition(&mut self, partition: &TablePath, groups: &[GroupHistory<'_>]) -> Result<()> {
        let mut names: Vec<&str> = Vec::new();
        let mut all_go = true;
        for group in groups {
            let needed = self.needed.get(&(partition.as_str().to_owned(), group.file_id.to_owned()));
            let places = doomed(&self.rules, group, needed.copied());
            all_go &= group.replaced_at.is_some() && places.len() == group.slices.len();
            for slice in places.iter().filter_map(|place| group.slices.get(*place)) {
                let paths = slice.files.iter().map(|name| partition.join(name)).collect::<Result<Vec<_>>>()?;
                if paths.iter().any(|path| self.held.holds(path)) {
                    self.plan.extra.insert(LEFT_BEHIND.to_owned(), "true".to_owned());
                    all_go = false;
                } else {
                    names.extend(&slice.files);
                }
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        if all_go && !partition.is_root() && nothing_else(self.snapshot, partition, &names)? {
            self.plan.emptied.push(partition.as_str().to_owned());
        }
        let folder = if partition.is_root() { self.base.clone() } else { format!("{}/{partition}", self.base) };
        let file = |name: &&str| CleanFile { path: format!("{folder}/{name}"), bootstrap: false };
        self.plan.files.insert(partition.as_str().to_owned(), names.iter().map(file).collect());
        Ok(())
    }
}

/// True if the partition's folder holds nothing but what goes and its own metadata, and nobody is writing to the table.
fn nothing_else(snapshot: &Snapshot, partition: &TablePath, names: &[&str]) -> Result<bool> {
    if snapshot.timeline().pending().any(|i| is_write(i.action)) {
        return Ok(false);
    }
    let goes = |name: &str| name.starts_with(PARTITION_METADATA) || names.contains(&name);
    let entries = snapshot.storage().list(partition)?;
    Ok(entries.iter().all(|e| e.kind != EntryKind::Dir && goes(&e.name)))
}
