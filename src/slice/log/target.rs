//! Names of log files: what an append goes by, and the statistics that Hudi keeps of it.

use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::WriteStat;
use crate::format::file_name::{FileName, LogName};
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};
use crate::table::FileSlice;

/// Names that are tried before giving up: each is taken by a writer that did not end well.
const TRIES_MAX: u32 = 1000;

/// The file group that is appended to.
#[derive(Clone, Debug)]
pub struct NewLog {
    /// The partition's path; `""` in a table without partitions.
    pub partition: String,
    /// The file group.
    pub file_id: String,
    /// The write token: `{task}-{stage}-{attempt}`.
    pub write_token: String,
    /// The instant that writes.
    pub instant: InstantTime,
    /// The task's number, as in the sequence numbers of its rows.
    pub task: u32,
    /// What the group holds; `None` for a new one.
    pub slice: Option<FileSlice>,
    /// From table version 8 on: a file bears the instant that wrote it, and not that of its slice.
    pub named_by_writer: bool,
}

impl NewLog {
    /// The instant in the files' names.
    pub(super) fn named_instant(&self) -> InstantTime {
        match &self.slice {
            Some(slice) if !self.named_by_writer => slice.compaction.unwrap_or(slice.base_instant),
            _ => self.instant,
        }
    }

    /// The logs of the slice that is appended to: those on top of a pending compaction, where there is one.
    fn logs(&self) -> impl Iterator<Item = (LogName<'_>, &str)> {
        let named = self.named_instant();
        let names = self.slice.iter().flat_map(|s| &s.log_files).map(|f| f.name.as_str());
        names.filter_map(move |name| match FileName::parse(name) {
            FileName::Log(log) if log.instant == named => Some((log, name)),
            _ => None,
        })
    }

    /// The first version whose name may be free.
    pub(super) fn first_version(&self) -> u32 {
        self.logs().map(|(log, _)| log.version).max().unwrap_or(0) + 1
    }

    /// The first free name from a version on. Nobody else makes files of this instant and token, but an earlier attempt.
    pub(super) fn free_name(&self, storage: &dyn Storage, from: u32) -> Result<(u32, String)> {
        let partition = TablePath::parse(&self.partition)?;
        for version in from..from.saturating_add(TRIES_MAX) {
            let name = format!(".{}_{}.log.{version}_{}", self.file_id, self.named_instant(), self.write_token);
            match storage.stat(&partition.join(&name)?) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok((version, name)),
                Err(e) => return Err(e),
            }
        }
        Err(Error::internal(format!("{TRIES_MAX} log files of file group {} bear {}", self.file_id, self.instant)))
    }

    /// What the commit says of a log file, but for its counts.
    pub(super) fn stat(&self, name: &str, version: u32) -> WriteStat {
        let mut stat = WriteStat {
            file_id: self.file_id.clone(),
            path: Some(if self.partition.is_empty() { name.to_owned() } else { format!("{}/{name}", self.partition) }),
            partition_path: Some(self.partition.clone()),
            previous: Some(self.named_instant().to_string()),
            log_version: Some(version),
            log_offset: Some(0),
            base_file: Some(String::new()),
            ..WriteStat::default()
        };
        if let Some(slice) = self.slice.as_ref().filter(|_| !self.named_by_writer) {
            let base = slice.base_file.as_ref().filter(|_| slice.compaction.is_none());
            stat.base_file = Some(base.map_or_else(String::new, |b| b.name.clone()));
            stat.log_files = self.logs().map(|(_, name)| name.to_owned()).collect();
        }
        stat.log_files.push(name.to_owned());
        stat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::StoredFile;

    fn target(named_by_writer: bool, compaction: Option<&str>) -> NewLog {
        let time = |t: &str| InstantTime::parse(t).unwrap();
        let file = |name: &str| StoredFile { name: name.into(), size: 1 };
        NewLog {
            partition: "a/b".into(),
            file_id: "f-0".into(),
            write_token: "3-0-1".into(),
            instant: time("005"),
            task: 3,
            slice: Some(FileSlice {
                partition: "a/b".into(),
                file_id: "f-0".into(),
                base_instant: time("001"),
                base_file: Some(file("f-0_1-0-1_001.parquet")),
                log_files: vec![
                    file(".f-0_001.log.9_1-0-1"),
                    file(".f-0_001.log.10_2-0-1"),
                    file(".f-0_004.log.1_1-0-1"),
                ],
                compaction: compaction.map(time),
            }),
            named_by_writer,
        }
    }

    #[test]
    fn up_to_version_6_a_log_extends_its_slice() {
        let target = target(false, None);
        assert_eq!((target.named_instant().as_str(), target.first_version()), ("001", 11));
        let stat = target.stat("new", 11);
        assert_eq!((stat.previous.as_deref(), stat.base_file.as_deref()), (Some("001"), Some("f-0_1-0-1_001.parquet")));
        assert_eq!(stat.log_files, [".f-0_001.log.9_1-0-1", ".f-0_001.log.10_2-0-1", "new"]);
        assert_eq!(stat.path.as_deref(), Some("a/b/new"));
    }

    #[test]
    fn up_to_version_6_a_log_lies_on_top_of_a_pending_compaction() {
        let target = target(false, Some("004"));
        assert_eq!((target.named_instant().as_str(), target.first_version()), ("004", 2));
        let stat = target.stat("new", 2);
        assert_eq!((stat.previous.as_deref(), stat.base_file.as_deref()), (Some("004"), Some("")));
        assert_eq!(stat.log_files, [".f-0_004.log.1_1-0-1", "new"]);
    }

    #[test]
    fn from_version_8_on_a_log_is_its_writers() {
        let target = target(true, Some("004"));
        assert_eq!((target.named_instant().as_str(), target.first_version()), ("005", 1));
        let stat = target.stat("new", 1);
        assert_eq!((stat.previous.as_deref(), stat.base_file.as_deref()), (Some("005"), Some("")));
        assert_eq!(stat.log_files, ["new"]);
    }
}
