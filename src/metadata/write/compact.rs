//! Compacting the metadata table: for each file group with log files, a base file of what all its records amount to.
//!
//! When, and under which instant, is what keeps readers right, for they ignore log files that a base file is said to hold.
//! From table version 8 on the instant lies before that of any data table write that is pending and already in the metadata
//! table; log files that completed later stay on top. Before, a compaction is named after the newest delta commit, and must
//! wait until no data table instant up to that one is pending.
//!
//! The plan is written first. One that a crash left is carried out as it stands.

use super::base_file::write_base;
use super::delta::TOKEN;
use super::record::{Encoder, RecordType};
use super::schema::RecordFormat;
use super::target::Target;
use super::{COMPACTION_SUFFIX, suffixed, undo};
use crate::error::{Error, Result};
use crate::format::commit::{CommitMetadata, WriteStat};
use crate::format::file_name::{FileName, base_file_name};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::format::plan::{CompactionOperation, CompactionPlan};
use crate::metadata::changes::Change;
use crate::metadata::placement::Placement;
use crate::metadata::reader::{GroupReader, Versions};
use crate::metadata::record::Merge;
use crate::metadata::slice::{Group, LogFile, Slice, groups};
use crate::metadata::valid::{Committed, ValidInstants};
use crate::metadata::{ALL_PARTITIONS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX, parallel};
use crate::storage::{Removal, TablePath};
use crate::timeline::Timeline;
use std::collections::BTreeSet;

/// Carries out compactions that were left pending, and a new one if it is time; answers the newest that completed.
pub(super) fn maintain(to: &Target<'_>, after: usize) -> Result<Option<InstantTime>> {
    let (timeline, mut newest) = finish_pending(to)?;
    if is_due(&timeline, after)
        && let Some(instant) = choose_instant(to, &timeline)?
    {
        let plan = plan(to, &timeline, instant)?;
        if !plan.operations.is_empty() {
            let instants = to.instants(&timeline)?;
            let requested = instants.request(instant, Action::Compaction, plan.encode()?)?;
            run(to, &timeline, &requested, &plan)?;
            newest = Some(instant);
        }
    }
    Ok(newest)
}

/// Carries out compactions that were left pending; answers the timeline after that, and the newest of them.
pub(super) fn finish_pending(to: &Target<'_>) -> Result<(Timeline, Option<InstantTime>)> {
    let mut timeline = to.timeline()?;
    let pending: Vec<Instant> = timeline.pending().filter(|i| i.action == Action::Compaction).copied().collect();
    for instant in &pending {
        let plan = timeline.compaction_plans(&**to.storage, &[instant])?.into_iter().next().flatten();
        let plan = plan.ok_or_else(|| Error::corrupt(format!("{instant} has no plan")))?;
        run(to, &timeline, instant, &plan)?;
        timeline = timeline.reload(&**to.storage)?;
    }
    Ok((timeline, pending.last().map(|i| i.requested)))
}

/// True if enough delta commits came after the newest compaction.
fn is_due(timeline: &Timeline, after: usize) -> bool {
    let compaction = newest_compaction(timeline);
    let is_after = |i: &&Instant| compaction.is_none_or(|at| i.completion.unwrap_or(i.requested) > at);
    timeline.completed().filter(|i| i.action == Action::DeltaCommit).filter(is_after).count() >= after
}

fn newest_compaction(timeline: &Timeline) -> Option<InstantTime> {
    timeline.completed().filter(|i| i.action == Action::Commit).map(|i| i.requested).max()
}

/// The instant of a compaction at this moment; `None` if none is possible.
fn choose_instant(to: &Target<'_>, timeline: &Timeline) -> Result<Option<InstantTime>> {
    let newest_delta = timeline.completed().rfind(|i| i.action == Action::DeltaCommit).map(|i| i.requested);
    let Some(newest_delta) = newest_delta else { return Ok(None) };
    let chosen = match to.format {
        RecordFormat::V6 => {
            if to.data.pending().any(|i| i.requested <= newest_delta) {
                return Ok(None);
            }
            suffixed(newest_delta, COMPACTION_SUFFIX)?
        }
        RecordFormat::V8 | RecordFormat::V9 => {
            let known: BTreeSet<InstantTime> = timeline.completed().map(|i| i.requested).collect();
            let zone = to.data.config().zone();
            match to.data.pending().find(|i| known.contains(&i.requested)) {
                Some(pending) => {
                    let before =
                        pending.requested.epoch_ms(zone).and_then(|ms| InstantTime::from_epoch_ms(ms - 1, zone));
                    let Some(before) = before else { return Ok(None) };
                    before
                }
                None => to.new_time(timeline)?,
            }
        }
    };
    let taken = timeline.instants().iter().any(|i| i.requested == chosen);
    Ok((!taken && newest_compaction(timeline).is_none_or(|newest| chosen > newest)).then_some(chosen))
}

fn plan(to: &Target<'_>, timeline: &Timeline, instant: InstantTime) -> Result<CompactionPlan> {
    let committed = Committed::new(&**to.storage, timeline);
    let mut plan = CompactionPlan::default();
    for partition in undo::partitions(to)? {
        if !is_kept(&partition) {
            continue;
        }
        for group in groups(&**to.storage, &committed, &partition)? {
            let mut log_files = Vec::new();
            for log in &group.slice.logs {
                if is_before(to, &committed, log, instant)? {
                    log_files.push(log.path.file_name().to_owned());
                }
            }
            if log_files.is_empty() || group.slice.base_instant.is_some_and(|base| base >= instant) {
                continue;
            }
            let base_instant = to.slice_instant(&group);
            let base_file = group.slice.base.as_ref().map(|path| path.file_name().to_owned());
            let (partition, file_id) = (partition.clone(), group.file_id);
            let operation =
                CompactionOperation { partition, file_id, base_instant, base_file, log_files, ..Default::default() };
            plan.operations.push(operation);
        }
    }
    Ok(plan)
}

fn is_kept(partition: &str) -> bool {
    [FILES, COLUMN_STATS, PARTITION_STATS, RECORD_INDEX].contains(&partition)
}

/// True if a compaction of that instant takes the log file in: readers will take it that it did.
fn is_before(to: &Target<'_>, committed: &Committed<'_>, log: &LogFile, instant: InstantTime) -> Result<bool> {
    if to.format == RecordFormat::V6 {
        return Ok(true);
    }
    let FileName::Log(name) = FileName::parse(log.path.file_name()) else { return Ok(false) };
    Ok(committed.completion_time(name.instant)?.is_none_or(|completed| completed < instant))
}

/// Carries a plan out.
fn run(to: &Target<'_>, timeline: &Timeline, pending: &Instant, plan: &CompactionPlan) -> Result<()> {
    let instant = pending.requested;
    let instants = to.instants(timeline)?;
    let inflight = instants.start(pending, Vec::new())?;
    delete_leftovers(to, plan, instant)?;
    let committed = Committed::new(&**to.storage, timeline);
    let valid = ValidInstants::committed(to.data, &committed);
    let stats = parallel::each(&plan.operations, to.threads, |operation| {
        let done = compact(to, operation, instant, &valid);
        done.map_err(|e| e.context(format!("compacting {}/{}", operation.partition, operation.file_id)))
    })?;
    let operation = Some("COMPACT".to_owned());
    let mut metadata = CommitMetadata { operation, compacted: true, ..CommitMetadata::default() };
    metadata.extra.insert("schema".to_owned(), to.format.commit_text().to_owned());
    for (operation, stat) in plan.operations.iter().zip(stats) {
        metadata.add(&operation.partition, stat);
    }
    instants.complete(&inflight, timeline, metadata.encode(timeline.config().layout(), Action::Commit)?)?;
    Ok(())
}

/// Deletes base files of an attempt that died.
fn delete_leftovers(to: &Target<'_>, plan: &CompactionPlan, instant: InstantTime) -> Result<()> {
    let partitions: BTreeSet<&str> = plan.operations.iter().map(|o| o.partition.as_str()).collect();
    for partition in partitions {
        let dir = TablePath::parse(partition)?;
        for entry in to.files.list(&dir)? {
            if matches!(FileName::parse(&entry.name), FileName::Base(base) if base.instant == instant) {
                to.files.delete(&Removal::data_file(&dir.join(&entry.name)?)?)?;
            }
        }
    }
    Ok(())
}

fn compact(
    to: &Target<'_>,
    operation: &CompactionOperation,
    instant: InstantTime,
    valid: &ValidInstants<'_>,
) -> Result<WriteStat> {
    let partition = operation.partition.as_str();
    if !is_kept(partition) {
        return Err(Error::unsupported(format!("a plan to compact {partition}, which this build does not know")));
    }
    let group = group_of(operation)?;
    let reader = GroupReader::open(&**to.storage, &group, valid)?;
    let name = base_file_name(&operation.file_id, TOKEN, instant, ".hfile");
    let path = TablePath::parse(partition)?.join(&name)?;
    let merger = Merger { partition, format: to.format, encoder: Encoder::new(to.format) };
    let (rows, size) = write_base(to, partition, &path, |put| {
        reader.scan(|key, versions| match merger.merge(key, versions).map_err(|e| e.context(show(key)))? {
            Merged::Gone => Ok(()),
            Merged::Base(value) => put(key, value),
            Merged::New(value) => put(key, &value),
        })
    })?;
    let (_, changed) = reader.counts();
    Ok(WriteStat {
        file_id: operation.file_id.clone(),
        path: Some(format!("{partition}/{name}")),
        previous: operation.base_instant.map(|base| base.to_string()),
        size: Some(size),
        records: Some(rows),
        num_updates: rows.min(changed as u64),
        total_write_bytes: size,
        partition_path: Some(partition.to_owned()),
        total_log_records: changed as u64,
        total_log_files: operation.log_files.len() as u64,
        total_log_files_compacted: operation.log_files.len() as u64,
        total_updated_records_compacted: changed as u64,
        ..WriteStat::default()
    })
}

/// The slice that a plan names.
fn group_of(operation: &CompactionOperation) -> Result<Group> {
    let dir = super::target::root()?.join(&operation.partition)?;
    let base = operation.base_file.as_ref().map(|name| dir.join(name)).transpose()?;
    let logs = operation.log_files.iter().map(|name| Ok(LogFile { path: dir.join(name)?, size: None }));
    let mut logs = logs.collect::<Result<Vec<LogFile>>>()?;
    logs.sort_by(|a, b| match (FileName::parse(a.path.file_name()), FileName::parse(b.path.file_name())) {
        (FileName::Log(a), FileName::Log(b)) => a.order(&b),
        _ => std::cmp::Ordering::Equal,
    });
    let slice = Slice { base, base_instant: operation.base_instant, logs };
    Ok(Group { file_id: operation.file_id.clone(), slice, newest_log: None })
}

fn show(key: &[u8]) -> String {
    format!("record {:?}", String::from_utf8_lossy(key))
}

/// What the records of one key amount to.
enum Merged<'a> {
    Gone,
    /// The base file's record as it is.
    Base(&'a [u8]),
    New(Vec<u8>),
}

struct Merger<'a> {
    partition: &'a str,
    format: RecordFormat,
    encoder: Encoder,
}

impl Merger<'_> {
    fn merge<'v>(&self, key: &[u8], versions: &Versions<'v>) -> Result<Merged<'v>> {
        if let (Some((schema, value)), []) = (versions.base, versions.changes)
            && **schema == *self.format.schema()?
        {
            return Ok(Merged::Base(value));
        }
        match self.partition {
            FILES => self.files(key, versions),
            RECORD_INDEX => self.placement(versions),
            _ => self.stats(versions),
        }
    }

    fn files<'v>(&self, key: &[u8], versions: &Versions<'v>) -> Result<Merged<'v>> {
        let mut merge = Merge::default();
        let mut is_there = versions.base.is_some();
        for change in versions.changes {
            is_there = matches!(change, Change::Put(..));
            match change {
                Change::Put(value, schema) => merge.put(schema, value)?,
                Change::Delete => merge.delete(),
            }
        }
        if !is_there {
            return Ok(Merged::Gone);
        }
        let mut files = merge.finish(versions.base.map(|(schema, value)| (&**schema, value)))?;
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let kind = if key == ALL_PARTITIONS.as_bytes() { RecordType::Partitions } else { RecordType::Files };
        let entries = files.iter().map(|f| (f.name.as_str(), Some(f.size.unwrap_or(0))));
        Ok(Merged::New(self.encoder.files(kind, entries)?))
    }

    fn stats<'v>(&self, versions: &Versions<'v>) -> Result<Merged<'v>> {
        let kind = if self.partition == PARTITION_STATS { RecordType::PartitionStats } else { RecordType::ColumnStats };
        let merged = super::partition_stats::merged(versions)?;
        Ok(merged.map_or(Merged::Gone, |stats| Merged::New(self.encoder.stats(kind, &stats))))
    }

    fn placement<'v>(&self, versions: &Versions<'v>) -> Result<Merged<'v>> {
        let newest = match versions.changes.last() {
            Some(Change::Delete) => None,
            Some(Change::Put(value, schema)) => Some((schema, value.as_ref())),
            None => versions.base,
        };
        let Some((schema, value)) = newest else { return Ok(Merged::Gone) };
        if **schema == *self.format.schema()? {
            return Ok(Merged::New(value.to_vec()));
        }
        Ok(Merged::New(self.encoder.placement(&Placement::decode(schema, value)?)))
    }
}
