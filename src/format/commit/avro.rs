//! The Avro form of commit metadata.

use super::{CommitMetadata, PartitionStats, ReplacedGroups, RuntimeStats, WriteStat};
use crate::error::{Error, Result};
use crate::format::avro::Cursor;

pub(super) fn encode(_metadata: &CommitMetadata, _replace: bool) -> Result<Vec<u8>> {
    Err(Error::internal("avro encoding of commit metadata"))
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
