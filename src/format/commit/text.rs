//! Writing the JSON form of commit metadata: Hudi's field order in Jackson's layout, so that a commit by us reads as one by it.

use super::{CommitMetadata, PartitionStats, ReplacedGroups, WriteStat};
use crate::error::Result;
use crate::format::jackson;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Commit<'a> {
    #[serde(serialize_with = "written")]
    partition_to_write_stats: &'a [PartitionStats],
    compacted: bool,
    extra_metadata: &'a BTreeMap<String, String>,
    operation_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "replaced")]
    partition_to_replace_file_ids: Option<&'a [ReplacedGroups]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stat<'a> {
    file_id: &'a str,
    path: Option<&'a str>,
    cdc_stats: Option<&'a BTreeMap<String, u64>>,
    prev_commit: &'a str,
    num_writes: u64,
    num_deletes: u64,
    num_update_writes: u64,
    num_inserts: u64,
    total_write_bytes: u64,
    total_write_errors: u64,
    /// Never used by any release.
    temp_path: Option<&'a str>,
    partition_path: Option<&'a str>,
    total_log_records: u64,
    total_log_files_compacted: u64,
    total_log_size_compacted: u64,
    total_updated_records_compacted: u64,
    total_log_blocks: u64,
    total_corrupt_log_block: u64,
    total_rollback_blocks: u64,
    file_size_in_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev_base_file: Option<&'a str>,
    min_event_time: Option<i64>,
    max_event_time: Option<i64>,
    runtime_stats: Option<Runtime>,
    #[serde(flatten)]
    log: Option<Log<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Runtime {
    total_scan_time: u64,
    total_upsert_time: u64,
    total_create_time: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Log<'a> {
    log_version: u32,
    log_offset: u64,
    base_file: &'a str,
    log_files: &'a [String],
    /// An empty Java `Option`, as its fields serialize.
    records_stats: BTreeMap<&'a str, Option<u64>>,
}

pub(super) fn commit(metadata: &CommitMetadata, replace: bool) -> Result<Vec<u8>> {
    let commit = Commit {
        partition_to_write_stats: &metadata.written,
        compacted: metadata.compacted,
        extra_metadata: &metadata.extra,
        operation_type: metadata.operation.as_deref(),
        partition_to_replace_file_ids: replace.then_some(&metadata.replaced),
    };
    jackson::to_vec(&commit).map_err(|e| e.context("commit metadata"))
}

fn written<S: Serializer>(partitions: &[PartitionStats], to: S) -> std::result::Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(partitions.len()))?;
    for entry in partitions {
        let stats: Vec<Stat<'_>> = entry.stats.iter().map(stat).collect();
        map.serialize_entry(&entry.partition, &stats)?;
    }
    map.end()
}

fn replaced<S: Serializer>(groups: &Option<&[ReplacedGroups]>, to: S) -> std::result::Result<S::Ok, S::Error> {
    let groups = groups.unwrap_or_default();
    let mut map = to.serialize_map(Some(groups.len()))?;
    for entry in groups {
        map.serialize_entry(&entry.partition, &entry.file_ids)?;
    }
    map.end()
}

fn stat(stat: &WriteStat) -> Stat<'_> {
    Stat {
        file_id: &stat.file_id,
        path: stat.path.as_deref(),
        cdc_stats: (!stat.cdc_stats.is_empty()).then_some(&stat.cdc_stats),
        prev_commit: stat.prev_commit(),
        num_writes: stat.records.unwrap_or_default(),
        num_deletes: stat.num_deletes,
        num_update_writes: stat.num_updates,
        num_inserts: stat.num_inserts,
        total_write_bytes: stat.total_write_bytes,
        total_write_errors: stat.total_write_errors,
        temp_path: None,
        partition_path: stat.partition_path.as_deref(),
        total_log_records: stat.total_log_records,
        total_log_files_compacted: stat.total_log_files_compacted,
        total_log_size_compacted: stat.total_log_size_compacted,
        total_updated_records_compacted: stat.total_updated_records_compacted,
        total_log_blocks: stat.total_log_blocks,
        total_corrupt_log_block: stat.total_corrupt_log_blocks,
        total_rollback_blocks: stat.total_rollback_blocks,
        file_size_in_bytes: stat.size.unwrap_or_default(),
        prev_base_file: stat.prev_base_file.as_deref(),
        min_event_time: stat.min_event_time,
        max_event_time: stat.max_event_time,
        runtime_stats: stat.runtime.map(|r| Runtime {
            total_scan_time: r.scan_ms,
            total_upsert_time: r.upsert_ms,
            total_create_time: r.create_ms,
        }),
        log: stat.log_version.map(|version| Log {
            log_version: version,
            log_offset: stat.log_offset.unwrap_or_default(),
            base_file: stat.base_file.as_deref().unwrap_or_default(),
            log_files: &stat.log_files,
            records_stats: BTreeMap::from([("val", None)]),
        }),
    }
}
