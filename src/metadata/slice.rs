//! Finding the newest slice of the `files` partition: one base file, or none yet, and the log files on top of it.
//!
//! The base is the newest one whose instant is committed. Up to table version 6 a log file bears the base instant of its
//! slice; from 8 on it bears the instant that wrote it, and belongs on top of the base if it *completed* after the base's
//! compaction was requested: the compaction that runs nested inside a delta commit does not hold that commit's log.
//! Logs of a slice whose compaction is still pending are on top of the base before it in both.

use super::valid::Committed;
use super::{FILES, ROOT};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::FileName;
use crate::format::instant::InstantTime;
use crate::storage::{EntryKind, Storage, TablePath};

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

/// Lists the partition and picks the newest slice.
pub(super) fn newest(storage: &dyn Storage, committed: &Committed<'_>) -> Result<Slice> {
    let dir = TablePath::parse(ROOT)?.join(FILES)?;
    let entries = storage.list(&dir).map_err(|e| {
        // On object stores a missing folder is an empty one, which is found below.
        if e.kind() == ErrorKind::NotFound { Error::corrupt(format!("{dir} does not exist")) } else { e }
    })?;
    let files = entries.iter().filter_map(|e| match e.kind {
        EntryKind::File { size } => Some((e.name.as_str(), size)),
        EntryKind::Dir => None,
    });
    let names = pick(committed, files)?;
    let log = |(name, size): &(&str, Option<u64>)| Ok(LogFile { path: dir.join(name)?, size: *size });
    let logs = names.logs.iter().map(log).collect::<Result<Vec<_>>>()?;
    let base = names.base.map(|n| dir.join(n)).transpose()?;
    if base.is_none() && logs.is_empty() {
        return Err(Error::corrupt(format!("{dir} holds no committed file")));
    }
    Ok(Slice { base, base_instant: names.base_instant, logs })
}

struct Names<'n> {
    base: Option<&'n str>,
    base_instant: Option<InstantTime>,
    logs: Vec<(&'n str, Option<u64>)>,
}

fn pick<'n>(committed: &Committed<'_>, files: impl Iterator<Item = (&'n str, Option<u64>)>) -> Result<Names<'n>> {
    let mut base: Option<(InstantTime, &str)> = None;
    let mut logs = Vec::new();
    for (name, size) in files {
        match FileName::parse(name) {
            FileName::Base(file) if file.extension == ".hfile" => {
                check_group(file.file_id, name)?;
                // Of two attempts of one instant either will do: both hold what it compacted.
                if committed.contains(file.instant)? {
                    base = base.max(Some((file.instant, name)));
                }
            }
            FileName::Log(log) if !log.cdc => {
                check_group(log.file_id, name)?;
                logs.push((log, (name, size)));
            }
            FileName::NativeLog | FileName::External(_) | FileName::BadMark(_) => {
                return Err(Error::unsupported(format!("{name:?} in the metadata table")));
            }
            _ => {}
        }
    }
    logs.sort_by(|(a, _), (b, _)| a.order(b));
    let mut on_top = Vec::new();
    for (log, file) in logs {
        if is_on_top(committed, log.instant, base.map(|(instant, _)| instant))? {
            on_top.push(file);
        }
    }
    Ok(Names { base: base.map(|(_, name)| name), base_instant: base.map(|(instant, _)| instant), logs: on_top })
}

fn check_group(file_id: &str, name: &str) -> Result<()> {
    if GROUP.contains(&file_id) {
        return Ok(());
    }
    Err(Error::unsupported(format!("{name:?}: the partition {FILES} has more than one file group")))
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
