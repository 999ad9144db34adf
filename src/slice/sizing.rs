//! How large files become: which small files take inserts, and how many rows a new one gets.
//! Format: docs/format.md, "File sizing".

use crate::error::{Error, Result};
use crate::format::commit::CommitMetadata;
use crate::format::file_name::FileName;
use std::collections::BTreeMap;
use std::str::FromStr;

const FILE_MAX: &str = "hoodie.parquet.max.file.size";
const SMALL_FILE: &str = "hoodie.parquet.small.file.limit";
const ESTIMATE: &str = "hoodie.copyonwrite.record.size.estimate";
const THRESHOLD: &str = "hoodie.record.size.estimation.threshold";

/// Sizes that files should have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizing {
    /// Bytes at which a base file is full.
    pub file_max: u64,
    /// Base files below it take inserts; 0: none does.
    pub small_file: u64,
    /// Bytes of a record while no commit tells.
    pub record_estimate: u64,
    /// A commit tells if it wrote more than this part of [`Sizing::small_file`].
    pub threshold: f64,
}

impl Sizing {
    /// From Hudi's settings. `Invalid` names the setting.
    pub fn new(settings: &BTreeMap<String, String>) -> Result<Sizing> {
        Ok(Sizing {
            file_max: setting(settings, FILE_MAX, 120 << 20)?,
            small_file: setting(settings, SMALL_FILE, 100 << 20)?,
            record_estimate: setting(settings, ESTIMATE, 1024)?,
            threshold: setting(settings, THRESHOLD, 1.0)?,
        })
    }

    /// Average bytes of a record, by commits, newest first: that of the first which wrote enough base files to tell.
    pub fn record_size<'c>(&self, commits: impl Iterator<Item = &'c CommitMetadata>) -> u64 {
        let enough = (self.small_file as f64 * self.threshold) as u64;
        let mut largest = None;
        for commit in commits {
            let (mut bytes, mut records) = (0_u64, 0_u64);
            for stat in commit.written.iter().flat_map(|p| &p.stats) {
                if stat.file_name().is_some_and(|n| matches!(FileName::parse(n), FileName::Base(_))) {
                    bytes = bytes.saturating_add(stat.size.unwrap_or_default());
                    records = records.saturating_add(stat.records.unwrap_or_default());
                }
            }
            if records == 0 {
                continue;
            }
            let average = bytes.div_ceil(records).max(1);
            if bytes > enough {
                return average;
            }
            // Footers and filters weigh on small files, so that the largest of them tells best, and at most this much.
            if largest.is_none_or(|(most, _)| bytes > most) {
                largest = Some((bytes, average));
            }
        }
        largest.map_or(self.record_estimate, |(_, average)| average.min(self.record_estimate)).max(1)
    }
}

fn setting<T: FromStr>(settings: &BTreeMap<String, String>, key: &str, default: T) -> Result<T> {
    let Some(text) = settings.get(key) else { return Ok(default) };
    text.trim().parse().map_err(|_| Error::invalid(format!("{key}={text:?} is no number")).in_column(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::commit::WriteStat;

    fn commit(name: &str, size: u64, records: u64) -> CommitMetadata {
        let mut commit = CommitMetadata::default();
        let path = Some(format!("p/{name}"));
        commit.add("p", WriteStat { path, size: Some(size), records: Some(records), ..WriteStat::default() });
        commit
    }

    #[test]
    fn the_newest_commit_that_wrote_enough_tells() {
        let sizing = Sizing::new(&BTreeMap::from([(SMALL_FILE.to_owned(), "1000".to_owned())])).unwrap();
        let base = "a-0_0-1-2_20260101000000000.parquet";
        let log = ".a-0_20260101000000000.log.1_0-1-2";
        let commits = [commit(log, 1 << 30, 1), commit(base, 900, 1), commit(base, 5000, 50), commit(base, 9000, 10)];
        assert_eq!(sizing.record_size(commits.iter()), 100);
        assert_eq!(sizing.record_size([].iter()), 1024);
        // Nothing wrote enough: the largest, and not more than the estimate.
        assert_eq!(sizing.record_size([commit(base, 900, 100), commit(base, 990, 99)].iter()), 10);
        assert_eq!(sizing.record_size([commit(base, 430_000, 1)].iter().take(0)), 1024);
        let sizing = Sizing::new(&BTreeMap::new()).unwrap();
        assert_eq!(sizing.record_size([commit(base, 430_000, 1)].iter()), 1024);
        let bad = BTreeMap::from([(FILE_MAX.to_owned(), "large".to_owned())]);
        assert!(Sizing::new(&bad).unwrap_err().message().contains(FILE_MAX));
    }
}
