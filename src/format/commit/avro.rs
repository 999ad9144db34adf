//! The Avro form of commit metadata.

use super::{CommitMetadata, PartitionStats, ReplacedGroups, RuntimeStats, WriteStat};
use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Definition, Model, Writer};
use std::sync::LazyLock;

/// The records of commit metadata, in the short notation.
pub(in crate::format) const DEFINITIONS: [Definition; 4] = [
    Definition {
        name: "HoodieRuntimeStats",
        fields: "
            totalScanTime: long?
            totalCreateTime: long?
            totalUpsertTime: long?",
    },
    Definition {
        name: "HoodieWriteStat",
        fields: "
            fileId: string?
            path: string?
            prevCommit: string?
            numWrites: long?
            numDeletes: long?
            numUpdateWrites: long?
            totalWriteBytes: long?
            totalWriteErrors: long?
            partitionPath: string?
            totalLogRecords: long?
            totalLogFiles: long?
            totalUpdatedRecordsCompacted: long?
            numInserts: long?
            totalLogBlocks: long?
            totalCorruptLogBlock: long?
            totalRollbackBlocks: long?
            fileSizeInBytes: long?
            logVersion: int?
            logOffset: long?
            baseFile: string?
            logFiles: [string]?
            cdcStats: {long}?
            prevBaseFile: string?
            minEventTime: long?
            maxEventTime: long?
            runtimeStats: HoodieRuntimeStats?
            totalLogFilesCompacted: long?
            totalLogReadTimeMs: long?
            totalLogSizeCompacted: long?
            tempPath: string?
            numUpdates: long?",
    },
    Definition {
        name: "HoodieCommitMetadata",
        fields: "
            partitionToWriteStats: {[HoodieWriteStat]}?
            compacted: boolean?
            extraMetadata: {string}?
            version: int|null = 1
            operationType: string?",
    },
    Definition {
        name: "HoodieReplaceCommitMetadata",
        fields: "
            partitionToWriteStats: {[HoodieWriteStat]}?
            compacted: boolean?
            extraMetadata: {string}?
            version: int|null = 1
            operationType: string?
            partitionToReplaceFileIds: {[string]}?",
    },
];

static COMMIT: LazyLock<Result<Model>> = LazyLock::new(|| Model::new("HoodieCommitMetadata", &DEFINITIONS));
static REPLACE: LazyLock<Result<Model>> = LazyLock::new(|| Model::new("HoodieReplaceCommitMetadata", &DEFINITIONS));

pub(super) fn encode(metadata: &CommitMetadata, replace: bool) -> Result<Vec<u8>> {
    let model = if replace { &REPLACE } else { &COMMIT };
    model.as_ref().map_err(Error::duplicate)?.container(|field, writer| put_commit(metadata, field, writer))
}

/// One field of the record; Hudi fails over maps that are null.
pub(in crate::format) fn put_commit(metadata: &CommitMetadata, field: &str, writer: &mut Writer<'_, '_>) -> Result<()> {
    match field {
        "partitionToWriteStats" => {
            let entries = metadata.written.iter().map(|p| (&p.partition, &p.stats));
            writer.map(entries, |stats, writer| writer.array(stats, put_stat))
        }
        "compacted" => writer.bool(metadata.compacted),
        "extraMetadata" => writer.map(&metadata.extra, |value, writer| writer.str(value)),
        "operationType" => writer.opt_str(metadata.operation.as_deref()),
        "partitionToReplaceFileIds" => {
            let entries = metadata.replaced.iter().map(|r| (&r.partition, &r.file_ids));
            writer.map(entries, |ids, writer| writer.strs(ids))
        }
        _ => Ok(()),
    }
}

fn put_stat(stat: &WriteStat, writer: &mut Writer<'_, '_>) -> Result<()> {
    writer.record(|field, writer| match field {
        "fileId" => writer.str(&stat.file_id),
        "path" => writer.opt_str(stat.path.as_deref()),
        "prevCommit" => writer.str(stat.prev_commit()),
        "numWrites" => writer.count(stat.records.unwrap_or_default()),
        "numDeletes" => writer.count(stat.num_deletes),
        "numUpdateWrites" => writer.count(stat.num_updates),
        "totalWriteBytes" => writer.count(stat.total_write_bytes),
        "totalWriteErrors" => writer.count(stat.total_write_errors),
        "partitionPath" => writer.opt_str(stat.partition_path.as_deref()),
        "totalLogRecords" => writer.count(stat.total_log_records),
        "totalLogFiles" if stat.total_log_files > 0 => writer.count(stat.total_log_files),
        "totalUpdatedRecordsCompacted" => writer.count(stat.total_updated_records_compacted),
        "numInserts" => writer.count(stat.num_inserts),
        "totalLogBlocks" => writer.count(stat.total_log_blocks),
        "totalCorruptLogBlock" => writer.count(stat.total_corrupt_log_blocks),
        "totalRollbackBlocks" => writer.count(stat.total_rollback_blocks),
        "fileSizeInBytes" => writer.count(stat.size.unwrap_or_default()),
        "totalLogFilesCompacted" => writer.count(stat.total_log_files_compacted),
        "totalLogSizeCompacted" => writer.count(stat.total_log_size_compacted),
        _ => put_rare(stat, field, writer),
    })
}

/// The fields that most stats leave null.
fn put_rare(stat: &WriteStat, field: &str, writer: &mut Writer<'_, '_>) -> Result<()> {
    match field {
        "cdcStats" if !stat.cdc_stats.is_empty() => writer.map(&stat.cdc_stats, |size, writer| writer.count(*size)),
        "prevBaseFile" => writer.opt_str(stat.prev_base_file.as_deref()),
        "minEventTime" => stat.min_event_time.map_or(Ok(()), |t| writer.long(t)),
        "maxEventTime" => stat.max_event_time.map_or(Ok(()), |t| writer.long(t)),
        "runtimeStats" => match stat.runtime {
            Some(runtime) => writer.record(|field, writer| match field {
                "totalScanTime" => writer.count(runtime.scan_ms),
                "totalCreateTime" => writer.count(runtime.create_ms),
                "totalUpsertTime" => writer.count(runtime.upsert_ms),
                _ => Ok(()),
            }),
            None => Ok(()),
        },
        "logVersion" => stat.log_version.map_or(Ok(()), |v| writer.count(v.into())),
        "logOffset" if stat.is_log() => writer.count(stat.log_offset.unwrap_or_default()),
        "baseFile" if stat.is_log() => writer.str(stat.base_file.as_deref().unwrap_or_default()),
        "logFiles" if stat.is_log() => writer.strs(&stat.log_files),
        _ => Ok(()),
    }
}

pub(super) fn commit(cursor: &mut Cursor<'_, '_>) -> Result<CommitMetadata> {
    let mut metadata = CommitMetadata::default();
    cursor.record(|field, cursor| {
        match field {
            "operationType" => metadata.operation = cursor.str()?.map(str::to_ascii_uppercase),
            "compacted" => metadata.compacted = cursor.bool()?.unwrap_or(false),
            "partitionToWriteStats" => {
                cursor.map(|partition, cursor| {
                    let mut entry = PartitionStats { partition: partition.to_owned(), stats: Vec::new() };
                    cursor.array(|cursor| {
                        entry.stats.push(stat(cursor)?.tidy());
                        Ok(())
                    })?;
                    entry.stats.shrink_to_fit();
                    metadata.written.push(entry);
                    Ok(())
                })?;
            }
            "partitionToReplaceFileIds" => {
                cursor.map(|partition, cursor| {
                    let mut entry = ReplacedGroups { partition: partition.to_owned(), file_ids: Vec::new() };
                    entry.file_ids = strings(cursor)?;
                    metadata.replaced.push(entry);
                    Ok(())
                })?;
            }
            "extraMetadata" => {
                cursor.map(|key, cursor| {
                    metadata.extra.extend(cursor.str()?.map(|v| (key.to_owned(), v.to_owned())));
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(metadata)
}

pub(super) fn stat(cursor: &mut Cursor<'_, '_>) -> Result<WriteStat> {
    let mut stat = WriteStat::default();
    cursor.record(|field, cursor| {
        match field {
            "fileId" => stat.file_id = text(cursor)?.unwrap_or_default(),
            "path" => stat.path = text(cursor)?,
            "prevCommit" => stat.previous = text(cursor)?,
            "fileSizeInBytes" => stat.size = known(cursor)?,
            "numWrites" => stat.records = known(cursor)?,
            "numInserts" => stat.num_inserts = count(cursor)?,
            "numUpdateWrites" => stat.num_updates = count(cursor)?,
            "numDeletes" => stat.num_deletes = count(cursor)?,
            "totalWriteBytes" => stat.total_write_bytes = count(cursor)?,
            "totalWriteErrors" => stat.total_write_errors = count(cursor)?,
            "partitionPath" => stat.partition_path = text(cursor)?,
            "totalLogRecords" => stat.total_log_records = count(cursor)?,
            "totalLogFiles" => stat.total_log_files = count(cursor)?,
            "totalLogFilesCompacted" => stat.total_log_files_compacted = count(cursor)?,
            "totalLogSizeCompacted" => stat.total_log_size_compacted = count(cursor)?,
            "totalUpdatedRecordsCompacted" => stat.total_updated_records_compacted = count(cursor)?,
            "totalLogBlocks" => stat.total_log_blocks = count(cursor)?,
            "totalCorruptLogBlock" => stat.total_corrupt_log_blocks = count(cursor)?,
            "totalRollbackBlocks" => stat.total_rollback_blocks = count(cursor)?,
            "minEventTime" => stat.min_event_time = cursor.long()?,
            "maxEventTime" => stat.max_event_time = cursor.long()?,
            "runtimeStats" => stat.runtime = runtime(cursor)?,
            "logVersion" => stat.log_version = cursor.long()?.and_then(|n| n.try_into().ok()),
            "logOffset" => stat.log_offset = known(cursor)?,
            "baseFile" => stat.base_file = text(cursor)?,
            "logFiles" => stat.log_files = strings(cursor)?,
            "prevBaseFile" => stat.prev_base_file = text(cursor)?,
            "cdcStats" => {
                cursor.map(|path, cursor| {
                    stat.cdc_stats.insert(path.to_owned(), count(cursor)?);
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(stat)
}

fn runtime(cursor: &mut Cursor<'_, '_>) -> Result<Option<RuntimeStats>> {
    let mut runtime = RuntimeStats::default();
    let is_there = cursor.record(|field, cursor| {
        match field {
            "totalScanTime" => runtime.scan_ms = count(cursor)?,
            "totalUpsertTime" => runtime.upsert_ms = count(cursor)?,
            "totalCreateTime" => runtime.create_ms = count(cursor)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(is_there.then_some(runtime))
}

fn text(cursor: &mut Cursor<'_, '_>) -> Result<Option<String>> {
    Ok(cursor.str()?.map(str::to_owned))
}

/// A count; a negative number is unknown.
fn known(cursor: &mut Cursor<'_, '_>) -> Result<Option<u64>> {
    Ok(cursor.long()?.and_then(|n| n.try_into().ok()))
}

fn count(cursor: &mut Cursor<'_, '_>) -> Result<u64> {
    Ok(known(cursor)?.unwrap_or_default())
}

fn strings(cursor: &mut Cursor<'_, '_>) -> Result<Vec<String>> {
    let mut strings = Vec::new();
    cursor.array(|cursor| {
        strings.extend(cursor.str()?.map(str::to_owned));
        Ok(())
    })?;
    Ok(strings)
}
