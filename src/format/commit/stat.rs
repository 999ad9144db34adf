//! [`WriteStat`]: what is said of one written file.
//!
//! A stat without a path stands in the work profile of an inflight instant; one with a log version is a log file's.

use std::collections::BTreeMap;

/// One written file. Counts that nobody stated are zero; [`WriteStat::size`] and [`WriteStat::records`] tell unknown apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStat {
    /// The file group.
    pub file_id: String,
    /// The file's path relative to the table; `None` in the work profile of an inflight instant.
    pub path: Option<String>,
    /// The base instant of the slice that was there before; `None` for a new group.
    pub previous: Option<String>,
    /// Bytes of the file after the write. Readers without listing trust it.
    pub size: Option<u64>,
    /// Records written: all of a base file's, those appended to a log.
    pub records: Option<u64>,
    /// Records that were not in the table before.
    pub num_inserts: u64,
    /// Records that replaced others (`numUpdateWrites`).
    pub num_updates: u64,
    /// Records deleted.
    pub num_deletes: u64,
    /// Bytes written.
    pub total_write_bytes: u64,
    /// Records that could not be written.
    pub total_write_errors: u64,
    /// The partition; the writer fills it, readers have the map's key.
    pub partition_path: Option<String>,
    /// Change logs: path relative to the table → bytes.
    pub cdc_stats: BTreeMap<String, u64>,
    /// Compaction: records read from logs.
    pub total_log_records: u64,
    /// Compaction: log files read, in Avro only.
    pub total_log_files: u64,
    /// Compaction: log files read.
    pub total_log_files_compacted: u64,
    /// Compaction: bytes of the log files read.
    pub total_log_size_compacted: u64,
    /// Compaction: records of the base file that logs replaced.
    pub total_updated_records_compacted: u64,
    /// Compaction: log blocks read.
    pub total_log_blocks: u64,
    /// Compaction: damaged log blocks passed over.
    pub total_corrupt_log_blocks: u64,
    /// Compaction: rollback blocks read.
    pub total_rollback_blocks: u64,
    /// Smallest event time of the records, ms since the epoch.
    pub min_event_time: Option<i64>,
    /// Largest event time of the records, ms since the epoch.
    pub max_event_time: Option<i64>,
    /// Where the time went.
    pub runtime: Option<RuntimeStats>,
    /// Log writes: the version in the log file's name.
    pub log_version: Option<u32>,
    /// Log writes: where in the file the write began, bytes.
    pub log_offset: Option<u64>,
    /// Log writes: name of the slice's base file; empty without one.
    pub base_file: Option<String>,
    /// Log writes: names of log files. Version 6: all of the slice, this one included; from 8 on this write's.
    pub log_files: Vec<String>,
    /// Name of the base file that was merged or compacted.
    pub prev_base_file: Option<String>,
}

/// Milliseconds that a write of one file took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStats {
    /// Reading logs.
    pub scan_ms: u64,
    /// Merging.
    pub upsert_ms: u64,
    /// Writing a new file.
    pub create_ms: u64,
}

impl WriteStat {
    /// The file's name without folders.
    pub fn file_name(&self) -> Option<&str> {
        self.path.as_deref().map(|p| p.rsplit('/').next().unwrap_or(p))
    }

    /// True for a log file's stat.
    pub fn is_log(&self) -> bool {
        self.log_version.is_some()
    }

    /// `prevCommit` as it is written: the text `null` for a new group.
    pub(super) fn prev_commit(&self) -> &str {
        self.previous.as_deref().unwrap_or("null")
    }

    pub(super) fn tidy(mut self) -> WriteStat {
        // Writers put the text "null" where a group is new.
        self.previous = self.previous.filter(|p| p != "null");
        self
    }
}
