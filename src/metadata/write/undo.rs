//! Taking a delta commit back: by a rollback of the metadata table's own.
//!
//! From table version 8 on each delta commit has files of its own, which are deleted. Before, its blocks lie in files among
//! others, and a command block behind them hides them. Either way the instant's own files go, so that the same instant can be
//! written again.

use super::schema::RecordFormat;
use super::target::{Target, root};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::{FileName, WriteToken, log_file_name};
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::log::rollback_block;
use crate::format::plan::{RollbackMetadata, RollbackPlan, RollbackRequest, RolledBack};
use crate::metadata::changes::Selected;
use crate::metadata::slice::{Group, groups};
use crate::metadata::valid::{Committed, ValidInstants};
use crate::storage::{EntryKind, ObjectWriter, Removal, TablePath};
use crate::timeline::Timeline;
use std::collections::BTreeMap;
use std::time::Instant as Clock;

/// Attempts at the next version of a log file.
const VERSIONS_MAX: u32 = 1000;

/// Files of the delta commit by partition: names, or the groups that hold its blocks.
enum Found {
    Files(BTreeMap<String, Vec<String>>),
    Groups(BTreeMap<String, Vec<Group>>),
}

/// Rolls `target`, an instant of the metadata table, back at the instant `at`.
pub(super) fn roll_back(to: &Target<'_>, timeline: &Timeline, target: &Instant, at: InstantTime) -> Result<()> {
    let started = Clock::now();
    let found = match to.format {
        RecordFormat::V6 => Found::Groups(groups_of(to, timeline, target.requested)?),
        RecordFormat::V8 | RecordFormat::V9 => Found::Files(files_of(to, target.requested)?),
    };
    let instants = to.instants(timeline)?;
    let pending = Instant { action: Action::DeltaCommit, ..*target };
    let plan = RollbackPlan { target: Some((target.requested, Action::DeltaCommit)), requests: requests(to, &found) };
    let cut_off = timeline.pending().any(|i| i.action == Action::Rollback && i.requested == at);
    let requested = match cut_off {
        true => Instant { requested: at, action: Action::Rollback, state: State::Requested, completion: None },
        false => instants.request(at, Action::Rollback, plan.encode()?)?,
    };
    let inflight = instants.start(&requested, Vec::new())?;
    // No longer completed before its files go.
    let pending = match target.is_completed() {
        true => instants.revert_to_inflight(target, Action::DeltaCommit)?,
        false => pending,
    };
    let partitions = match found {
        Found::Files(files) => delete(to, files)?,
        Found::Groups(groups) => hide(to, groups, target.requested, at)?,
    };
    instants.delete_pending(&Instant { state: State::Inflight, completion: None, ..pending })?;
    complete(to, timeline, &inflight, target.requested, started, partitions)
}

fn complete(
    to: &Target<'_>,
    timeline: &Timeline,
    inflight: &Instant,
    undone: InstantTime,
    started: Clock,
    partitions: BTreeMap<String, RolledBack>,
) -> Result<()> {
    let metadata = RollbackMetadata {
        started: inflight.requested.to_string(),
        millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        targets: vec![(undone, Action::DeltaCommit)],
        partitions,
    };
    to.instants(timeline)?.complete(inflight, timeline, metadata.encode()?)?;
    Ok(())
}

/// Ends rollbacks of the metadata table's own that were cut off; answers the timeline after that. One whose instant is gone
/// already only has to complete.
pub(super) fn finish_pending(to: &Target<'_>, timeline: Timeline) -> Result<Timeline> {
    let pending: Vec<Instant> = timeline.pending().filter(|i| i.action == Action::Rollback).copied().collect();
    for rollback in &pending {
        let requested = Instant { state: State::Requested, completion: None, ..*rollback };
        let plan = RollbackPlan::parse(&timeline.read(&**to.storage, &requested)?)?;
        let Some((undone, _)) = plan.target else {
            return Err(
                Error::corrupt(format!("{rollback} does not say what it rolls back")).at_instant(rollback.requested)
            );
        };
        let is_it = |i: &&Instant| i.action == Action::DeltaCommit && i.requested == undone;
        match timeline.instants().iter().rfind(is_it) {
            Some(target) => roll_back(to, &timeline, target, rollback.requested)?,
            None => {
                let inflight = to.instants(&timeline)?.start(&requested, Vec::new())?;
                complete(to, &timeline, &inflight, undone, Clock::now(), BTreeMap::new())?;
            }
        }
    }
    if pending.is_empty() { Ok(timeline) } else { timeline.reload(&**to.storage) }
}

/// The partitions of the metadata table that are in storage.
pub(super) fn partitions(to: &Target<'_>) -> Result<Vec<String>> {
    let entries = to.storage.list(&root()?)?;
    let is_partition = |name: &str| !name.starts_with('.');
    Ok(entries.into_iter().filter(|e| e.kind == EntryKind::Dir && is_partition(&e.name)).map(|e| e.name).collect())
}

fn files_of(to: &Target<'_>, target: InstantTime) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    for partition in partitions(to)? {
        let entries = to.storage.list(&root()?.join(&partition)?)?;
        let is_of = |name: &str| match FileName::parse(name) {
            FileName::Base(base) => base.instant == target,
            FileName::Log(log) => log.instant == target,
            _ => false,
        };
        let names: Vec<String> = entries.into_iter().map(|e| e.name).filter(|name| is_of(name)).collect();
        if !names.is_empty() {
            found.insert(partition, names);
        }
    }
    Ok(found)
}

/// The groups whose newest slice has blocks of the instant.
fn groups_of(to: &Target<'_>, timeline: &Timeline, target: InstantTime) -> Result<BTreeMap<String, Vec<Group>>> {
    let committed = Committed::new(&**to.storage, timeline);
    let valid = ValidInstants::new(to.data, &committed);
    let mut found: BTreeMap<String, Vec<Group>> = BTreeMap::new();
    for partition in partitions(to)? {
        for group in groups(&**to.storage, &committed, &partition)? {
            let scanned = Selected::read(&**to.storage, &group.slice.logs, &valid)?;
            if scanned.instants.contains(&target) {
                found.entry(partition.clone()).or_default().push(group);
            }
        }
    }
    Ok(found)
}

fn requests(to: &Target<'_>, found: &Found) -> Vec<RollbackRequest> {
    let mut requests = Vec::new();
    match found {
        Found::Files(files) => {
            for (partition, names) in files {
                let (partition, files) = (partition.clone(), names.clone());
                requests.push(RollbackRequest { partition, files, ..RollbackRequest::default() });
            }
        }
        Found::Groups(groups) => {
            for (partition, group) in groups.iter().flat_map(|(p, groups)| groups.iter().map(move |g| (p, g))) {
                requests.push(RollbackRequest {
                    partition: partition.clone(),
                    file_id: Some(group.file_id.clone()),
                    base_instant: to.slice_instant(group),
                    log_blocks: logs(group),
                    ..RollbackRequest::default()
                });
            }
        }
    }
    requests
}

fn logs(group: &Group) -> BTreeMap<String, u64> {
    group.slice.logs.iter().map(|log| (log.path.file_name().to_owned(), log.size.unwrap_or(0))).collect()
}

fn delete(to: &Target<'_>, files: BTreeMap<String, Vec<String>>) -> Result<BTreeMap<String, RolledBack>> {
    let mut done = BTreeMap::new();
    for (partition, names) in files {
        let dir = TablePath::parse(&partition)?;
        let removals = names.iter().map(|name| Removal::data_file(&dir.join(name)?)).collect::<Result<Vec<_>>>()?;
        for (removal, result) in removals.iter().zip(to.files.delete_many(&removals)) {
            result.map_err(|e| e.context(removal))?;
        }
        done.insert(partition, RolledBack { deleted: names, ..RolledBack::default() });
    }
    Ok(done)
}

/// Writes a command block behind the blocks of each group.
fn hide(
    to: &Target<'_>,
    groups: BTreeMap<String, Vec<Group>>,
    target: InstantTime,
    at: InstantTime,
) -> Result<BTreeMap<String, RolledBack>> {
    let block = rollback_block(at, target)?;
    let mut done: BTreeMap<String, RolledBack> = BTreeMap::new();
    for (partition, groups) in groups {
        let dir = TablePath::parse(&partition)?;
        let entry = done.entry(partition).or_default();
        for group in groups {
            let (named, mut version) = to.next_v6_log(&group)?;
            let name = loop {
                let name = log_file_name(&group.file_id, named, version, WriteToken::UNKNOWN);
                match create(to, &dir.join(&name)?, &block) {
                    Ok(()) => break name,
                    Err(e) if e.kind() == ErrorKind::AlreadyExists && version < VERSIONS_MAX => version += 1,
                    Err(e) => return Err(e),
                }
            };
            entry.log_files.insert(name, block.len() as u64);
            entry.failed_logs.extend(logs(&group));
        }
    }
    Ok(done)
}

fn create(to: &Target<'_>, path: &TablePath, block: &[u8]) -> Result<()> {
    let mut out: Box<dyn ObjectWriter> = to.files.create_writer(path)?;
    out.write_all(block).map_err(|e| Error::io(path, e))?;
    out.finish().map(drop)
}
