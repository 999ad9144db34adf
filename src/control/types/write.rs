//! The documents of writing: creating tables, commits, jobs and transactions.

use super::super::problem::Problem;
use crate::write::{CommitReport, Phase, ServiceReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of `POST /v1/tables`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// Its path below the warehouse, which is also its name in the mount.
    pub name: String,
    /// `hoodie.table.name`; the last component of `name` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hudi_name: Option<String>,
    /// `COPY_ON_WRITE`, which is the default, or `MERGE_ON_READ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_type: Option<String>,
    /// 6, which is the default and which every Hudi release from 0.14 on can write, or 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_version: Option<u32>,
    /// The columns of the record key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_key: Vec<String>,
    /// The columns of the partition path, outermost first; none for a table without partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_by: Vec<String>,
    /// The columns whose greater values win when a key comes twice; none for the later row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordering: Vec<String>,
    /// `simple`, `complex`, `non_partitioned`, `timestamp`, `custom`, or a class; made out from the fields when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_generator: Option<String>,
    /// Partition folders are named `column=value`.
    #[serde(default)]
    pub hive_style: bool,
    /// Values are URL-encoded in the names of partition folders.
    #[serde(default)]
    pub url_encode: bool,
    /// The kind of index that the table is meant for, such as `BUCKET`; what it must keep goes into the properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Columns as an Avro schema; left out, those of the first write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<serde_json::Value>,
    /// Partitions of the metadata table: `files`, `column_stats`, `record_index`. `files` when left out; an empty list makes
    /// a table without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Vec<String>>,
    /// More entries of `hoodie.properties`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// Body of `POST /v1/tables/{table}/delete_partition`; may be left out where the query names the partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionsRequest {
    /// Paths relative to the table.
    #[serde(default)]
    pub partitions: Vec<String>,
}

/// Body of `POST /v1/tables/{table}/rollback`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The pending instant; left out, every failed write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
}

/// Answer of the table services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Services {
    /// What was done, in order; empty where there was nothing to do.
    pub services: Vec<ServiceReport>,
}

/// Work that was asked for: a write, or a table service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Names the job.
    pub id: String,
    /// The table.
    pub table: String,
    /// `upsert`, …, `clean`, ….
    pub operation: String,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// What it is doing.
    pub phase: Phase,
    /// Rows taken in so far.
    pub rows: u64,
    /// Files done.
    pub files_done: u64,
    /// Files that are known to be written in all so far.
    pub files_planned: u64,
    /// When it was taken.
    pub started_ms: i64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// What the commit did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitReport>,
    /// What the table services did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<ServiceReport>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// `GET /v1/jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// Running jobs, and the newest of those that have ended; oldest first.
    pub jobs: Vec<JobStatus>,
}

/// Body of `POST /v1/transactions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginRequest {
    /// The table; may be left out where the mount has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What to do with the rows: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite` or
    /// `insert_overwrite_table`; `upsert` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How long it stays open after each request; ten minutes when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// The kind of index, as in the query of a single write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Hudi's write settings by their own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// False leaves cleaning, compaction and archival for another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<bool>,
    /// Drop indexes of the metadata table that cannot be maintained, instead of refusing the table.
    #[serde(default)]
    pub drop_unsupported_index: bool,
}

/// An open transaction: requests that will share one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Names the transaction.
    pub id: String,
    /// The table.
    pub table: String,
    /// What is done with the rows.
    pub operation: String,
    /// `open`, or `committing`.
    pub state: String,
    /// Requests taken in.
    pub requests: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their bodies.
    pub size_bytes: u64,
    /// When it was begun.
    pub started_ms: i64,
    /// When it is aborted unless something is sent.
    pub expires_ms: i64,
}

/// `GET /v1/transactions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transactions {
    /// Open ones, oldest first.
    pub transactions: Vec<Transaction>,
}
