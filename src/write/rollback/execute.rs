//! Carrying a rollback's plan out, our own or one that Java wrote.
//!
//! Every request can be carried out again: a file that is not there is deleted already, and a second command block hides
//! nothing more. Paths in a plan are reduced to a name in the request's partition, so that none leads anywhere else.

use super::plan::{base_of, newest_log};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::{LogName, WriteToken, log_file_name};
use crate::format::instant::{Action, InstantTime};
use crate::format::log::rollback_block;
use crate::format::plan::{RollbackMetadata, RollbackPlan, RollbackRequest, RolledBack};
use crate::metadata::write::{AddedFile, Changes};
use crate::storage::{EntryKind, Removal, Storage, TablePath};
use crate::write::session::Critical;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// Versions of log files tried: another writer of the slice may take some.
const VERSIONS_MAX: u32 = 100;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    base: String,
    partitions: BTreeMap<String, Partition>,
}

#[derive(Debug, Default)]
struct Partition {
    deleted: Vec<String>,
    /// Command blocks: log file and bytes.
    written: BTreeMap<String, u64>,
    /// Log files of the failed write, and their bytes.
    failed_logs: BTreeMap<String, u64>,
}

/// Carries the plan out.
pub(super) fn run(
    storage: &dyn Storage,
    critical: &Critical,
    rollback: InstantTime,
    plan: &RollbackPlan,
) -> Result<Done> {
    let (target, _) = plan.target.ok_or_else(|| Error::internal("a rollback of nothing"))?;
    let mut done = Done { base: base_of(storage), partitions: BTreeMap::new() };
    let mut removals = Vec::new();
    for request in &plan.requests {
        let partition = TablePath::parse(&request.partition)?;
        let did = done.partitions.entry(request.partition.clone()).or_default();
        for name in request.files.iter().map(|p| last_component(p)) {
            removals.push(Removal::data_file(&partition.join(name)?)?);
            did.deleted.push(name.to_owned());
        }
        if request.log_blocks.is_empty() {
            continue;
        }
        match critical.config().version().slices_by_completion_time() {
            // All that the write named by itself, a command block of an earlier attempt included.
            true => {
                for name in logs_of(storage, &partition, request, target)? {
                    removals.push(Removal::data_file(&partition.join(&name)?)?);
                    did.deleted.push(name);
                }
            }
            false => {
                for (path, size) in &request.log_blocks {
                    did.failed_logs.insert(last_component(path).to_owned(), *size);
                }
                let (name, size) = hide(storage, &partition, request, rollback, target)?;
                did.written.insert(name, size);
            }
        }
    }
    storage.delete_many(&removals).into_iter().collect::<Result<()>>()?;
    Ok(done)
}

/// Appends a command block to a slice of version 6, in a log file of its own.
fn hide(
    storage: &dyn Storage,
    partition: &TablePath,
    request: &RollbackRequest,
    rollback: InstantTime,
    target: InstantTime,
) -> Result<(String, u64)> {
    let (Some(file_id), Some(base)) = (&request.file_id, request.base_instant) else {
        return Err(Error::corrupt(format!("the plan of rollback {rollback} names log blocks but no slice"))
            .in_partition(partition.as_str()));
    };
    let names = files_of(storage, partition)?;
    let newest = newest_log(&names, file_id, base).and_then(LogName::parse).map_or(0, |log| log.version);
    let block = rollback_block(rollback, target)?;
    for version in (newest + 1)..(newest + 1).saturating_add(VERSIONS_MAX) {
        let name = log_file_name(file_id, base, version, WriteToken::UNKNOWN);
        let mut writer = match storage.create_writer(&partition.join(&name)?) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
            other => other?,
        };
        writer.write_all(&block).map_err(|e| Error::io(&name, e))?;
        match writer.finish() {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
            other => return other.map(|meta| (name, meta.size)),
        }
    }
    Err(Error::new(ErrorKind::Conflict, format!("no free log version after {newest} for file group {file_id}"))
        .in_partition(partition.as_str()))
}

/// The log files of the request's group that the write named by itself.
fn logs_of(
    storage: &dyn Storage,
    partition: &TablePath,
    request: &RollbackRequest,
    target: InstantTime,
) -> Result<Vec<String>> {
    let named: Vec<&str> = request.log_blocks.keys().map(|p| last_component(p)).collect();
    let group = |log: &LogName<'_>| request.file_id.as_deref().is_none_or(|id| id == log.file_id);
    let names = files_of(storage, partition)?.into_iter();
    Ok(names
        .filter(|n| {
            LogName::parse(n).is_some_and(|log| log.instant == target && (group(&log) || named.contains(&n.as_str())))
        })
        .collect())
}

fn files_of(storage: &dyn Storage, partition: &TablePath) -> Result<Vec<String>> {
    let entries = match storage.list(partition) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    Ok(entries.into_iter().filter(|e| e.kind != EntryKind::Dir).map(|e| e.name).collect())
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Done {
    /// The log files that were added, for the metadata table.
    pub(super) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (partition, did) in self.partitions.iter().filter(|(_, did)| !did.written.is_empty()) {
            let added = did
                .written
                .iter()
                .map(|(name, size)| (name.clone(), AddedFile { size: *size, ..AddedFile::default() }));
            changes.partition(partition).added.extend(added);
        }
        changes
    }
}

/// What the completed rollback says.
pub(super) fn metadata(
    rollback: InstantTime,
    target: (InstantTime, Action),
    took: Duration,
    done: Done,
) -> RollbackMetadata {
    let base = done.base;
    let partitions = done.partitions.into_iter().map(|(partition, did)| {
        let folder = if partition.is_empty() { base.clone() } else { format!("{base}/{partition}") };
        let whole = |name: String| format!("{folder}/{name}");
        let sizes = |files: BTreeMap<String, u64>| files.into_iter().map(|(name, size)| (whole(name), size)).collect();
        let deleted = did.deleted.into_iter().map(&whole).collect();
        let rolled_back = RolledBack {
            deleted,
            failed: Vec::new(),
            log_files: sizes(did.written),
            failed_logs: sizes(did.failed_logs),
        };
        (partition, rolled_back)
    });
    RollbackMetadata {
        started: rollback.to_string(),
        millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        targets: vec![target],
        partitions: partitions.collect(),
    }
}
