//! The JSON form of commit metadata.

use super::{CommitMetadata, PartitionStats, ReplacedGroups, WriteStat};
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    partition_to_write_stats: Option<BTreeMap<String, Option<Vec<Stat>>>>,
    compacted: Option<bool>,
    extra_metadata: Option<BTreeMap<String, Option<String>>>,
    operation_type: Option<String>,
    partition_to_replace_file_ids: Option<BTreeMap<String, Option<Vec<Option<String>>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stat {
    file_id: Option<String>,
    path: Option<String>,
    prev_commit: Option<String>,
    #[serde(default, deserialize_with = "count")]
    file_size_in_bytes: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    num_writes: Option<u64>,
}

/// A count; what is no count (a fraction, a negative number) is unknown rather than an error.
fn count<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<u64>, D::Error> {
    Ok(Option::<serde_json::Number>::deserialize(from)?.and_then(|n| n.as_u64()))
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

fn partition_stats((partition, stats): (String, Option<Vec<Stat>>)) -> PartitionStats {
    let stats = stats.unwrap_or_default().into_iter().map(|stat| {
        WriteStat {
            file_id: stat.file_id.unwrap_or_default(),
            path: stat.path,
            previous: stat.prev_commit,
            size: stat.file_size_in_bytes,
            records: stat.num_writes,
        }
        .tidy()
    });
    PartitionStats { partition, stats: stats.collect() }
}
