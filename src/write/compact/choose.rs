//! What to compact, and when: pure rules over slices and counts.
//!
//! The groups with the most log bytes come first, ties by file id. A plan takes groups until their input and output reach the
//! bound, and at least one, so that a group larger than the bound does not wait for ever.
//! Format: docs/format.md, "Compaction".

use crate::error::{Error, Result};
use crate::format::plan::CompactionOperation;
use crate::table::FileSlice;
use crate::write::options::WriterOptions;
use std::cmp::Reverse;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// When a compaction is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    Commits,
    CommitsAfterLastRequest,
    Time,
    Both,
    Either,
}

/// By what groups are ordered and bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    LogBytes,
    LogFiles,
    /// As they come.
    None,
}

/// Hudi's settings of compaction.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub trigger: Trigger,
    pub delta_commits: u64,
    pub delta_seconds: u64,
    order: Order,
    /// Log bytes, or log files, below which a group is left alone.
    threshold: u64,
    /// MiB of input and output in one plan.
    io_mib: u64,
    /// Bytes that a group without a base file is taken to write.
    file_bytes: u64,
}

/// What has happened since the last compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Since {
    /// Delta commits after the last completed compaction.
    pub commits: u64,
    /// Delta commits after the last one that was requested.
    pub commits_after_request: u64,
    /// Seconds since the last one completed, or since the first delta commit.
    pub seconds: u64,
}

impl Settings {
    /// `Invalid` names a setting that makes no sense, `Unsupported` a strategy that is not known here.
    pub fn new(options: &WriterOptions) -> Result<Settings> {
        const TRIGGER: &str = "hoodie.compact.inline.trigger.strategy";
        let trigger = match options.setting(TRIGGER).unwrap_or("NUM_COMMITS").to_ascii_uppercase().as_str() {
            "NUM_COMMITS" => Trigger::Commits,
            "NUM_COMMITS_AFTER_LAST_REQUEST" => Trigger::CommitsAfterLastRequest,
            "TIME_ELAPSED" => Trigger::Time,
            "NUM_AND_TIME" => Trigger::Both,
            "NUM_OR_TIME" => Trigger::Either,
            other => return Err(Error::unsupported(format!("{TRIGGER}={other}"))),
        };
        const STRATEGY: &str = "hoodie.compaction.strategy";
        let strategy = options.setting(STRATEGY).unwrap_or("LogFileSizeBasedCompactionStrategy");
        let (order, bounded) = match strategy.rsplit('.').next().unwrap_or_default() {
            "LogFileSizeBasedCompactionStrategy" => (Order::LogBytes, true),
            "LogFileNumBasedCompactionStrategy" => (Order::LogFiles, true),
            "BoundedIOCompactionStrategy" => (Order::None, true),
            "UnBoundedCompactionStrategy" => (Order::None, false),
            other => {
                return Err(Error::unsupported(format!("{STRATEGY}={other}"))
                    .with_hint("log size, log number, bounded and unbounded are known here"));
            }
        };
        let threshold = match order {
            Order::LogBytes => options.parsed("hoodie.compaction.logfile.size.threshold", 0)?,
            Order::LogFiles => options.parsed("hoodie.compaction.logfile.num.threshold", 0)?,
            Order::None => 0,
        };
        let io_mib = options.parsed("hoodie.compaction.target.io", 512_000)?;
        Ok(Settings {
            trigger,
            delta_commits: options.parsed("hoodie.compact.inline.max.delta.commits", 5)?,
            delta_seconds: options.parsed("hoodie.compact.inline.max.delta.seconds", 3600)?,
            order,
            threshold,
            io_mib: if bounded { io_mib } else { u64::MAX },
            file_bytes: options.parsed("hoodie.parquet.max.file.size", 120 * MIB)?,
        })
    }

    /// True if it is time.
    pub fn is_due(&self, since: Since) -> bool {
        let (commits, time) = (since.commits >= self.delta_commits, since.seconds >= self.delta_seconds);
        match self.trigger {
            Trigger::Commits => commits,
            Trigger::CommitsAfterLastRequest => since.commits_after_request >= self.delta_commits,
            Trigger::Time => time && since.commits > 0,
            Trigger::Both => commits && time,
            Trigger::Either => commits || (time && since.commits > 0),
        }
    }

    /// What a plan takes of slices that are free to be compacted.
    pub fn choose(&self, slices: Vec<FileSlice>) -> Vec<CompactionOperation> {
        let mut slices: Vec<FileSlice> =
            slices.into_iter().filter(|s| !s.log_files.is_empty() && self.size(s) >= self.threshold).collect();
        let key = |slice: &FileSlice| (Reverse(self.size(slice)), slice.file_id.clone(), slice.partition.clone());
        slices.sort_by_cached_key(key);
        let mut taken = 0u64;
        let mut operations = Vec::new();
        for slice in &slices {
            if taken >= self.io_mib && !operations.is_empty() {
                break;
            }
            let operation = self.operation(slice);
            taken = taken.saturating_add(operation.metrics.get("TOTAL_IO_MB").map_or(0, |mib| *mib as u64));
            operations.push(operation);
        }
        operations
    }

    /// What groups are ordered by, greatest first.
    fn size(&self, slice: &FileSlice) -> u64 {
        match self.order {
            Order::LogBytes => slice.log_files.iter().map(|f| f.size).sum(),
            Order::LogFiles => slice.log_files.len() as u64,
            Order::None => 0,
        }
    }

    fn operation(&self, slice: &FileSlice) -> CompactionOperation {
        let log_bytes: u64 = slice.log_files.iter().map(|f| f.size).sum();
        let base_bytes = slice.base_file.as_ref().map(|f| f.size);
        let (read, write) = ((base_bytes.unwrap_or(0) + log_bytes) / MIB, base_bytes.unwrap_or(self.file_bytes) / MIB);
        let metrics = BTreeMap::from([
            ("TOTAL_LOG_FILES".to_owned(), slice.log_files.len() as f64),
            ("TOTAL_LOG_FILES_SIZE".to_owned(), log_bytes as f64),
            ("TOTAL_IO_READ_MB".to_owned(), read as f64),
            ("TOTAL_IO_WRITE_MB".to_owned(), write as f64),
            ("TOTAL_IO_MB".to_owned(), (read + write) as f64),
        ]);
        CompactionOperation {
            partition: slice.partition.clone(),
            file_id: slice.file_id.clone(),
            base_instant: Some(slice.base_instant),
            base_file: slice.base_file.as_ref().map(|f| f.name.clone()),
            log_files: slice.log_files.iter().map(|f| f.name.clone()).collect(),
            metrics,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::instant::InstantTime;
    use crate::table::StoredFile;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings> {
        let settings = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::new(&WriterOptions { settings, ..WriterOptions::default() })
    }

    fn slice(file_id: &str, base_mib: u64, logs: &[u64]) -> FileSlice {
        let file = |(i, size): (usize, &u64)| StoredFile { name: format!("{file_id}.{i}"), size: *size };
        FileSlice {
            partition: "p".into(),
            file_id: file_id.into(),
            base_instant: InstantTime::parse("001").unwrap(),
            base_file: Some(StoredFile { name: "b".into(), size: base_mib * MIB }),
            log_files: logs.iter().enumerate().map(file).collect(),
            compaction: None,
        }
    }

    fn chosen(settings: &Settings, slices: &[FileSlice]) -> Vec<String> {
        settings.choose(slices.to_vec()).into_iter().map(|o| o.file_id).collect()
    }

    #[test]
    fn the_most_log_bytes_come_first_and_ties_go_by_file_id() {
        let slices =
            [slice("a", 1, &[5]), slice("d", 1, &[4, 5]), slice("b", 1, &[9]), slice("c", 1, &[]), slice("e", 1, &[7])];
        let default = settings(&[]).unwrap();
        assert_eq!(chosen(&default, &slices), ["b", "d", "e", "a"]);
        let by_number = settings(&[("hoodie.compaction.strategy", "x.LogFileNumBasedCompactionStrategy")]).unwrap();
        assert_eq!(chosen(&by_number, &slices), ["d", "a", "b", "e"]);
        let large = settings(&[("hoodie.compaction.logfile.size.threshold", "7")]).unwrap();
        assert_eq!(chosen(&large, &slices), ["b", "d", "e"]);
    }

    #[test]
    fn input_and_output_are_bounded() {
        let slices = [slice("a", 10, &[3]), slice("b", 10, &[2]), slice("c", 10, &[1])];
        let bounded = |mib: &str| settings(&[("hoodie.compaction.target.io", mib)]).unwrap();
        assert_eq!(chosen(&bounded("1"), &slices), ["a"]);
        assert_eq!(chosen(&bounded("20"), &slices), ["a"]);
        assert_eq!(chosen(&bounded("21"), &slices), ["a", "b"]);
        let metrics = bounded("1").choose(slices.to_vec()).remove(0).metrics;
        assert_eq!((metrics["TOTAL_IO_MB"], metrics["TOTAL_LOG_FILES_SIZE"]), (20.0, 3.0));
        let name = "UnBoundedCompactionStrategy";
        let unbounded =
            settings(&[("hoodie.compaction.target.io", "1"), ("hoodie.compaction.strategy", name)]).unwrap();
        assert_eq!(chosen(&unbounded, &slices).len(), 3);
    }

    #[test]
    fn triggers() {
        let due = |trigger: &str, commits, after, seconds| {
            let settings = settings(&[("hoodie.compact.inline.trigger.strategy", trigger)]).unwrap();
            settings.is_due(Since { commits, commits_after_request: after, seconds })
        };
        assert!(due("NUM_COMMITS", 5, 0, 0) && !due("NUM_COMMITS", 4, 4, 9999));
        assert!(due("num_commits_after_last_request", 9, 5, 0) && !due("NUM_COMMITS_AFTER_LAST_REQUEST", 9, 4, 0));
        assert!(
            due("TIME_ELAPSED", 1, 1, 3600) && !due("TIME_ELAPSED", 0, 0, 3600) && !due("TIME_ELAPSED", 9, 9, 3599)
        );
        assert!(due("NUM_AND_TIME", 5, 0, 3600) && !due("NUM_AND_TIME", 5, 0, 0));
        assert!(due("NUM_OR_TIME", 5, 0, 0) && due("NUM_OR_TIME", 1, 0, 3600));
        assert!(settings(&[("hoodie.compact.inline.trigger.strategy", "NEVER")]).is_err());
        assert!(
            settings(&[("hoodie.compaction.strategy", "a.b.DayBased")]).unwrap_err().message().contains("DayBased")
        );
    }
}
