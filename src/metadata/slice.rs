//! Finding the newest slice of each file group of a partition: one base file, or none yet, and the log files on top of it.
//!
//! The base is the newest one whose instant is committed. Up to table version 6 a log file bears the base instant of its
//! slice; from 8 on it bears the instant that wrote it, and belongs on top of the base if it *completed* after the base's
//! compaction was requested: the compaction that runs nested inside a delta commit does not hold that commit's log.
//! Logs of a slice whose compaction is still pending are on top of the base before it in both.

use super::valid::Committed;
use super::{COLUMN_STATS, FILES, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::{FileName, LogName};
use crate::format::instant::InstantTime;
use crate::storage::{EntryKind, Storage, TablePath};
use std::collections::BTreeMap;

/// The only file group of the partition; releases before 0.14 wrote its id without the last part.
const GROUP: [&str; 2] = ["files-0000-0", "files-0000"];

/// The files of a slice.
#[derive(Debug)]
pub(super) struct Slice {
    /// The base file, if there is one.
    pub base: Option<TablePath>,
    /// The instant of the base file.
    pub base_instant: Option<InstantTime>,
    /// The log files in the order in which they are read.
    pub logs: Vec<LogFile>,
}

/// A log file of a slice.
#[derive(Debug)]
pub(super) struct LogFile {
    pub path: TablePath,
    /// Bytes, where the listing tells.
    pub size: Option<u64>,
}

/// A file group of a partition and its newest slice.
#[derive(Debug)]
pub(super) struct Group {
    pub file_id: String,
    pub slice: Slice,
    /// The newest instant in the names of its log files, committed or not, and the highest version among those that bear it:
    /// what the next log file's name goes by up to table version 6.
    pub newest_log: Option<(InstantTime, u32)>,
}

/// Lists the partition `files` and picks the newest slice of its only group.
pub(super) fn newest(storage: &dyn Storage, committed: &Committed<'_>) -> Result<Slice> {
    let groups = groups(storage, committed, FILES)?;
    if let Some(other) = groups.iter().find(|g| !GROUP.contains(&g.file_id.as_str())) {
        let id = &other.file_id;
        return Err(Error::unsupported(format!("{id:?}: the partition {FILES} has more than one file group")));
    }
    let slice = groups.into_iter().map(|g| g.slice).find(|s| s.base.is_some() || !s.logs.is_empty());
    slice.ok_or_else(|| Error::corrupt(format!("{ROOT}/{FILES} holds no committed file")))
}

/// Lists a partition and picks the newest slice of each of its groups, in the order of their ids: a key's hash is a place in it.
pub(super) fn groups(storage: &dyn Storage, committed: &Committed<'_>, partition: &str) -> Result<Vec<Group>> {
    let dir = TablePath::parse(ROOT)?.join(partition)?;
    let entries = storage.list(&dir).map_err(|e| {
        // On object stores a missing folder is an empty one, which is found later.
        if e.kind() == ErrorKind::NotFound { Error::corrupt(format!("{dir} does not exist")) } else { e }
    })?;
    let mut named: BTreeMap<&str, Names<'_>> = BTreeMap::new();
    for entry in &entries {
        let EntryKind::File { size } = entry.kind else { continue };
        match FileName::parse(&entry.name) {
            FileName::Base(file) if file.extension == ".hfile" => {
                named.entry(file.file_id).or_default().bases.push((file.instant, &entry.name));
            }
            FileName::Log(log) if !log.cdc => named.entry(log.file_id).or_default().logs.push((log, &entry.name, size)),
            FileName::NativeLog | FileName::External(_) | FileName::BadMark(_) => {
                return Err(Error::unsupported(format!("{:?} in the metadata table", entry.name)));
            }
            _ => {}
        }
    }
    named.into_iter().map(|(id, names)| names.pick(committed, id, &dir)).collect()
}

/// Fails unless the groups of a partition are all that it was made with, by their numbers: a key's hash is a place among them.
pub(super) fn check_ids(groups: &[Group], partition: &str) -> Result<()> {
    let prefix = match partition {
        COLUMN_STATS => "col-stats-".to_owned(),
        other => format!("{}-", other.replace('_', "-")),
    };
    if groups.is_empty() {
        return Err(Error::corrupt(format!("{ROOT}/{partition} holds no file group")));
    }
    for (i, group) in groups.iter().enumerate() {
        let id = group.file_id.strip_suffix("-0").unwrap_or(&group.file_id);
        match id.strip_prefix(&prefix) {
            Some(index) if index.parse() == Ok(i) => {}
            // Groups of each partition of the data table apart.
            Some(rest) if rest.contains('-') => {
                return Err(Error::unsupported(format!("{:?}: a partitioned record index", group.file_id)));
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "{:?} stands where file group {i} of {ROOT}/{partition} is expected",
                    group.file_id
                )));
            }
        }
    }
    Ok(())
}

/// What a listing says of one group.
#[derive(Default)]
struct Names<'n> {
    bases: Vec<(InstantTime, &'n str)>,
    logs: Vec<(LogName<'n>, &'n str, Option<u64>)>,
}

impl Names<'_> {
    fn pick(mut self, committed: &Committed<'_>, file_id: &str, dir: &TablePath) -> Result<Group> {
        let mut base: Option<(InstantTime, &str)> = None;
        for (instant, name) in &self.bases {
            // Of two attempts of one instant either will do: both hold what it compacted.
            if committed.contains(*instant)? {
                base = base.max(Some((*instant, name)));
            }
        }
        let base_instant = base.map(|(instant, _)| instant);
        self.logs.sort_by(|(a, ..), (b, ..)| a.order(b));
        let newest_log = self.logs.last().map(|(log, ..)| (log.instant, log.version));
        let mut logs = Vec::new();
        for (log, name, size) in self.logs {
            if is_on_top(committed, log.instant, base_instant)? {
                logs.push(LogFile { path: dir.join(name)?, size });
            }
        }
        let base = base.map(|(_, name)| dir.join(name)).transpose()?;
        Ok(Group { file_id: file_id.to_owned(), slice: Slice { base, base_instant, logs }, newest_log })
    }
}

/// True if a log file of that name's instant belongs on top of the base.
fn is_on_top(committed: &Committed<'_>, log: InstantTime, base: Option<InstantTime>) -> Result<bool> {
    if !committed.timeline().config().version().slices_by_completion_time() {
        // Which of its blocks are committed is told by the blocks.
        return Ok(base.is_none_or(|base| log >= base));
    }
    if !committed.contains(log)? {
        return Ok(false);
    }
    let Some(base) = base else { return Ok(true) };
    Ok(match committed.completion_time(log)? {
        // As in Hudi: after an upgrade the base may bear a longer time than any completion.
        Some(completed) if completed.as_str().len() == base.as_str().len() => completed >= base,
        Some(_) => log >= base,
        // Committed, but older than what is remembered: Hudi puts it into the newest slice.
        None => true,
    })
}
