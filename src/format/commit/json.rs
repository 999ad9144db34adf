//! Reading the JSON form of commit metadata; `text` writes it.

use super::{CommitMetadata, PartitionStats, ReplacedGroups, RuntimeStats, WriteStat};
use crate::error::{Error, Result};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    partition_to_write_stats: Option<BTreeMap<String, Option<Stats>>>,
    compacted: Option<bool>,
    extra_metadata: Option<BTreeMap<String, Option<String>>>,
    operation_type: Option<String>,
    partition_to_replace_file_ids: Option<BTreeMap<String, Option<Vec<Option<String>>>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stat {
    file_id: Option<String>,
    path: Option<String>,
    cdc_stats: Option<BTreeMap<String, Number>>,
    prev_commit: Option<String>,
    num_writes: Number,
    num_deletes: Number,
    num_update_writes: Number,
    num_inserts: Number,
    total_write_bytes: Number,
    total_write_errors: Number,
    partition_path: Option<String>,
    total_log_records: Number,
    total_log_files: Number,
    total_log_files_compacted: Number,
    total_log_size_compacted: Number,
    total_updated_records_compacted: Number,
    total_log_blocks: Number,
    total_corrupt_log_block: Number,
    total_rollback_blocks: Number,
    file_size_in_bytes: Number,
    min_event_time: Number,
    max_event_time: Number,
    runtime_stats: Option<Runtime>,
    log_version: Number,
    log_offset: Number,
    base_file: Option<String>,
    log_files: Option<Vec<Option<String>>>,
    prev_base_file: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Runtime {
    total_scan_time: Number,
    total_upsert_time: Number,
    total_create_time: Number,
}

/// A number or null. What is not whole (a fraction) or not in range is unknown rather than an error.
#[derive(Default, Deserialize)]
struct Number(Option<serde_json::Number>);

impl Number {
    /// A count, where unknown is told from zero.
    fn known(&self) -> Option<u64> {
        self.0.as_ref().and_then(serde_json::Number::as_u64)
    }

    /// A count, zero where unknown.
    fn count(&self) -> u64 {
        self.known().unwrap_or_default()
    }

    /// A number that may be negative.
    fn signed(&self) -> Option<i64> {
        self.0.as_ref().and_then(serde_json::Number::as_i64)
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<CommitMetadata> {
    let commit: Commit = serde_json::from_slice(bytes)
        .map_err(|e| Error::corrupt(format!("commit metadata is neither Avro nor JSON: {e}")).with_source(e))?;
    Ok(CommitMetadata {
        operation: commit.operation_type.map(|o| o.to_ascii_uppercase()),
        compacted: commit.compacted.unwrap_or(false),
        written: commit.partition_to_write_stats.unwrap_or_default().into_iter().map(partition_stats).collect(),
        replaced: commit
            .partition_to_replace_file_ids
            .unwrap_or_default()
            .into_iter()
            .map(|(partition, ids)| ReplacedGroups {
                partition,
                file_ids: ids.unwrap_or_default().into_iter().flatten().collect(),
            })
            .collect(),
        extra: commit
            .extra_metadata
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        empty: false,
    })
}

fn partition_stats((partition, stats): (String, Option<Stats>)) -> PartitionStats {
    PartitionStats { partition, stats: stats.unwrap_or_default().0 }
}

/// The stats of a partition, turned into ours one by one and kept without room to spare: a commit may have a million partitions
/// with a stat each, and what is read here is several times larger.
#[derive(Default)]
struct Stats(Vec<WriteStat>);

impl<'de> Deserialize<'de> for Stats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Stats, D::Error> {
        deserializer.deserialize_seq(StatsVisitor)
    }
}

struct StatsVisitor;

impl<'de> Visitor<'de> for StatsVisitor {
    type Value = Stats;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of write stats")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Stats, A::Error> {
        let mut stats = Vec::new();
        while let Some(stat) = items.next_element::<Stat>()? {
            stats.push(write_stat(stat));
        }
        stats.shrink_to_fit();
        Ok(Stats(stats))
    }
}

fn write_stat(stat: Stat) -> WriteStat {
    let runtime = stat.runtime_stats.map(|r| RuntimeStats {
        scan_ms: r.total_scan_time.count(),
        upsert_ms: r.total_upsert_time.count(),
        create_ms: r.total_create_time.count(),
    });
    let parsed = WriteStat {
        file_id: stat.file_id.unwrap_or_default(),
        path: stat.path,
        previous: stat.prev_commit,
        size: stat.file_size_in_bytes.known(),
        records: stat.num_writes.known(),
        num_inserts: stat.num_inserts.count(),
        num_updates: stat.num_update_writes.count(),
        num_deletes: stat.num_deletes.count(),
        total_write_bytes: stat.total_write_bytes.count(),
        total_write_errors: stat.total_write_errors.count(),
        partition_path: stat.partition_path,
        cdc_stats: stat.cdc_stats.unwrap_or_default().into_iter().map(|(k, n)| (k, n.count())).collect(),
        total_log_records: stat.total_log_records.count(),
        total_log_files: stat.total_log_files.count(),
        total_log_files_compacted: stat.total_log_files_compacted.count(),
        total_log_size_compacted: stat.total_log_size_compacted.count(),
        total_updated_records_compacted: stat.total_updated_records_compacted.count(),
        total_log_blocks: stat.total_log_blocks.count(),
        total_corrupt_log_blocks: stat.total_corrupt_log_block.count(),
        total_rollback_blocks: stat.total_rollback_blocks.count(),
        min_event_time: stat.min_event_time.signed(),
        max_event_time: stat.max_event_time.signed(),
        runtime,
        log_version: stat.log_version.known().and_then(|v| v.try_into().ok()),
        log_offset: stat.log_offset.known(),
        base_file: stat.base_file,
        log_files: stat.log_files.unwrap_or_default().into_iter().flatten().collect(),
        prev_base_file: stat.prev_base_file,
    };
    parsed.tidy()
}
