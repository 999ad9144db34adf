//! One delta commit of the metadata table: requested, inflight, a log file for each file group that has records, completed.

use super::log_file::{Shard, write_log};
use super::plan::PartitionRows;
use super::schema::RecordFormat;
use super::target::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{CommitMetadata, WriteStat};
use crate::format::file_name::{WriteToken, log_file_name};
use crate::format::instant::{Action, InstantTime};
use crate::metadata::parallel;
use crate::metadata::slice::{Group, check_ids, groups};
use crate::metadata::valid::Committed;
use crate::storage::{ObjectWriter, TablePath};
use crate::timeline::Timeline;

/// The write token of all files that are written here: a file group has one writer.
pub(super) const TOKEN: WriteToken = WriteToken { partition: 0, stage: 1, attempt: 0 };
/// Versions of a log file that are tried before it is given up.
const VERSIONS_MAX: u32 = 1000;

/// A log file to be written.
struct Job<'a> {
    partition: &'static str,
    group: &'a Group,
    shard: Shard<'a>,
}

/// Commits records under an instant that is not on the metadata table's timeline.
pub(super) fn commit(
    target: &Target<'_>,
    timeline: &Timeline,
    instant: InstantTime,
    rows: &[PartitionRows<'_>],
) -> Result<()> {
    let committed = Committed::new(&**target.storage, timeline);
    let mut found: Vec<Vec<Group>> = Vec::new();
    for part in rows {
        let groups = groups(&**target.storage, &committed, part.partition)?;
        check_ids(&groups, part.partition)?;
        found.push(groups);
    }
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for (part, groups) in rows.iter().zip(&found) {
        let shards = Shard::divide(&part.rows, groups.len());
        let of_group = groups.iter().zip(shards).filter(|(_, shard)| !shard.is_empty());
        jobs.extend(of_group.map(|(group, shard)| Job { partition: part.partition, group, shard }));
    }
    let instants = target.instants(timeline)?;
    let layout = timeline.config().layout();
    let requested = instants.request(instant, Action::DeltaCommit, Vec::new())?;
    let profile = profile(target, &jobs).encode(layout, Action::DeltaCommit)?;
    let inflight = instants.start(&requested, profile)?;
    let stats = parallel::each(&jobs, target.threads, |job| {
        let path = format!("{}/{}", job.partition, job.group.file_id);
        write(target, instant, job).map_err(|e| e.context(path))
    })?;
    let mut metadata = CommitMetadata { operation: Some("UPSERT_PREPPED".to_owned()), ..CommitMetadata::default() };
    metadata.extra.insert("schema".to_owned(), target.format.commit_text().to_owned());
    for (job, stat) in jobs.iter().zip(stats) {
        metadata.add(job.partition, stat);
    }
    instants.complete(&inflight, timeline, metadata.encode(layout, Action::DeltaCommit)?)?;
    Ok(())
}

/// What is about to be written, as an inflight instant says it.
fn profile(target: &Target<'_>, jobs: &[Job<'_>]) -> CommitMetadata {
    let mut profile = CommitMetadata::profile("UPSERT_PREPPED");
    for job in jobs {
        let (puts, deletes) = job.shard.counts();
        let base = target.slice_instant(job.group).unwrap_or_else(InstantTime::zero);
        profile.plan_updates(job.partition, &job.group.file_id, base.as_str(), puts + deletes);
    }
    profile
}

fn write(target: &Target<'_>, instant: InstantTime, job: &Job<'_>) -> Result<WriteStat> {
    let group = job.group;
    let (named, mut version) = match target.format {
        RecordFormat::V6 => target.next_v6_log(group)?,
        RecordFormat::V8 | RecordFormat::V9 => (instant, 1),
    };
    let dir = TablePath::parse(job.partition)?;
    let (name, size) = loop {
        let name = log_file_name(&group.file_id, named, version, TOKEN);
        match write_new(target, &dir.join(&name)?, instant, job) {
            Ok(size) => break (name, size),
            // Left by an attempt that died; nothing in it counts.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && version < VERSIONS_MAX => version += 1,
            Err(e) => return Err(e),
        }
    };
    let (puts, deletes) = job.shard.counts();
    let (previous, base_file, log_files) = match target.format {
        RecordFormat::V6 => {
            let base = group.slice.base.as_ref().map(|path| path.file_name().to_owned());
            let logs = group.slice.logs.iter().map(|log| log.path.file_name().to_owned());
            (named, base.unwrap_or_default(), logs.chain([name.clone()]).collect())
        }
        RecordFormat::V8 | RecordFormat::V9 => (instant, String::new(), vec![name.clone()]),
    };
    Ok(WriteStat {
        file_id: group.file_id.clone(),
        path: Some(format!("{}/{name}", job.partition)),
        previous: Some(previous.to_string()),
        size: Some(size),
        records: Some(puts),
        num_updates: puts,
        num_deletes: deletes,
        total_write_bytes: size,
        partition_path: Some(job.partition.to_owned()),
        log_version: Some(version),
        log_offset: Some(0),
        base_file: Some(base_file),
        log_files,
        ..WriteStat::default()
    })
}

fn write_new(target: &Target<'_>, path: &TablePath, instant: InstantTime, job: &Job<'_>) -> Result<u64> {
    let mut out: Box<dyn ObjectWriter> = target.files.create_writer(path)?;
    let written = write_log(&mut out, job.partition, instant, target.format, &job.shard)?;
    let meta = out.finish()?;
    if meta.size != written {
        return Err(Error::internal(format!("{path} has {} bytes, {written} were written", meta.size)));
    }
    Ok(written)
}
