//! The documents of the control socket. `openapi.json` describes the same fields; a test compares the two.
//!
//! Times are milliseconds since the epoch and end in `_ms`; sizes are bytes and end in `_bytes`; instants are Hudi's digits.
//! Fields are only ever added.

mod write;

pub use write::*;

use super::problem::Problem;
use crate::telemetry::event::Event;
use serde::{Deserialize, Serialize};

/// `GET /v1/status`, and `.hudifs/status.json` in a mount.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// hudifs's version.
    pub version: String,
    /// The daemon's process.
    pub pid: u32,
    /// When it started.
    pub started_ms: i64,
    /// Where it is mounted; absent for a table that is looked at without a daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<String>,
    /// The control socket's real place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Where the log is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// `serving`, or `degraded` when a table is stale or failed.
    pub state: String,
    /// How local files are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passthrough: Option<Passthrough>,
    /// Memory use.
    pub memory: Memory,
    /// Every table of the mount.
    pub tables: Vec<TableStatus>,
    /// Pins that hold a view.
    pub pins: Vec<Pin>,
    /// What happened lately, oldest first.
    pub events: Vec<Event>,
}

/// Whether the kernel reads local files without the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passthrough {
    /// True when new opens of local files are passed through.
    pub active: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Memory of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// What `--memory-target` asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bytes: Option<u64>,
}

/// One table of the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatus {
    /// Its name in the mount: the base path's last component, or the path below the warehouse.
    pub name: String,
    /// The base path.
    pub uri: String,
    /// `serving`, `stale` (the last refresh failed) or `failed` (not served).
    pub state: String,
    /// `hoodie.table.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hudi_name: Option<String>,
    /// `COPY_ON_WRITE` or `MERGE_ON_READ`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_type: Option<String>,
    /// `hoodie.table.version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_version: Option<u32>,
    /// The instant that the root shows; absent for a table without a completed commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
    /// Counts published views since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// True when the root is held at an instant by `--as-of`.
    pub pinned: bool,
    /// `metadata_table` or `storage`: where file names come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lister: Option<String>,
    /// `inotify`, `poll` or `none`: how commits by others are noticed.
    pub watch: String,
    /// When commits were last looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshed_ms: Option<i64>,
    /// Why the table is stale or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// What the view holds, as far as its partitions have been counted; absent until somebody asked (`df` does).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<ViewTotals>,
    /// The lease that tells cleaners of other processes what is in use; absent without a mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseStatus>,
    /// What the owner should know about the table.
    pub warnings: Vec<String>,
}

/// Sums over the partitions of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewTotals {
    /// Files listed.
    pub files: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// File groups that have only log files, of which the view shows nothing.
    pub log_only_groups: u64,
    /// True once every partition is counted.
    pub complete: bool,
}

/// The lease that a daemon keeps on a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseStatus {
    /// `held`; `none` while nobody has looked into the table; `off` where none can be kept.
    pub state: String,
    /// When it ends unless it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// Instants that it holds.
    pub instants: u64,
    /// Open files that it holds.
    pub files: u64,
    /// Why it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `GET /v1/tables`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Every table of the mount, by name.
    pub tables: Vec<TableStatus>,
}

/// `GET /v1/tables/{table}/timeline`, and `.hudifs/timeline.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The table.
    pub table: String,
    /// The instant that the root shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
    /// Every instant of the active timeline, oldest first; archived ones before it where they were asked for.
    pub instants: Vec<TimelineInstant>,
}

/// One instant of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineInstant {
    /// The time that names it.
    pub requested: String,
    /// When it completed, as far as the table's layout records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<String>,
    /// Hudi's action, such as `commit`.
    pub action: String,
    /// `requested`, `inflight` or `completed`.
    pub state: String,
    /// The write operation, such as `upsert`, of a completed commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What the commit wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<CommitCounts>,
    /// True for an instant that is no longer active.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// What a commit says that it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitCounts {
    /// Partitions touched.
    pub partitions: u64,
    /// Files written, base and log.
    pub files: u64,
    /// Records in them.
    pub records: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// File groups replaced.
    pub replaced: u64,
}

/// What `GET /v1/tables/{table}/timeline` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineQuery {
    /// Operations and counts too, which costs a read for each completed commit.
    #[serde(default)]
    pub counts: bool,
    /// Archived instants too, which costs a read of the whole archive.
    #[serde(default)]
    pub archived: bool,
}

/// What `GET /v1/tables/{table}/files` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesQuery {
    /// Only this partition; the empty path is the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The view at this instant instead of the one that the root shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
}

/// One file of the read-optimized view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// The partition; empty in a table without partitions.
    pub partition: String,
    /// The served name.
    pub name: String,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The file group.
    pub file_id: String,
    /// The instant that wrote it.
    pub instant: String,
}

/// The end of a list of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesSummary {
    /// Partitions looked at.
    pub partitions: u64,
    /// Files listed.
    pub files: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// File groups that have only log files, of which a read-optimized view shows nothing.
    pub log_only_groups: u64,
    /// What was noticed on the way and does not make the list wrong.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// `GET /v1/tables/{table}/files` as one document. The server streams it, so `files` comes before what is known at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The table.
    pub table: String,
    /// The view's instant.
    pub instant: Option<String>,
    /// The files, by partition and name.
    pub files: Vec<FileEntry>,
    /// Partitions that could not be listed; the others are complete.
    pub failed: Vec<Problem>,
    /// Totals.
    pub summary: FilesSummary,
}

/// Body of `POST /v1/refresh`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshRequest {
    /// Only this table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

/// Answer of `POST /v1/refresh`, given after the new views are visible in the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    /// The tables that were refreshed.
    pub tables: Vec<RefreshedTable>,
}

/// How one table's refresh ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshedTable {
    /// The table.
    pub table: String,
    /// `unchanged`, `published` or `failed`.
    pub result: String,
    /// The instant that the root shows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Body of `POST /v1/pin`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// The table; may be left out where the mount has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The instant; left out, the one that the root shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instant: Option<String>,
    /// How long the pin lasts unless it is extended; an hour when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// What the pin is for, shown in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Body of `PATCH /v1/pin/{id}`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// How long from now; an hour when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A pinned view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Names the pin.
    pub id: String,
    /// The table.
    pub table: String,
    /// The view's instant.
    pub instant: String,
    /// The pinned tree, relative to the mount point.
    pub path: String,
    /// When it ends.
    pub expires_ms: i64,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it is made: true if the table's lease holds it too, so that cleaners of other processes keep its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased: Option<bool>,
}

/// `GET /v1/pin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Pins that have not ended, oldest first.
    pub pins: Vec<Pin>,
}
