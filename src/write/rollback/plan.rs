//! What a rollback has to undo, found by the write's markers, or, where there are none, by listing.
//!
//! | table | what the write left | what is done |
//! |---|---|---|
//! | any | a base file | deleted |
//! | version 6 | a log file of a slice that the write made | deleted |
//! | version 6 | a log file of an older slice | a command block after it hides the write's blocks |
//! | from 8 on | a log file, named by the write | deleted |
//!
//! In version 6 a log file is named by its slice, and other writers may have written to the same one: it stays.

use crate::error::{ErrorKind, Result};
use crate::format::commit::CommitMetadata;
use crate::format::file_name::{BaseName, FileName, LogName};
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::plan::{RollbackPlan, RollbackRequest};
use crate::storage::{Storage, TablePath};
use crate::timeline::Timeline;
use crate::view::{Lister, StorageLister};
use crate::write::markers::{self, Marker, MarkerKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is found to be undone.
struct Finder<'a> {
    storage: &'a Arc<dyn Storage>,
    timeline: &'a Timeline,
    target: InstantTime,
    /// Whole paths begin with it.
    base: String,
    requests: Vec<RollbackRequest>,
    /// Slices that get a command block, by partition, file group and base instant, with the log files that markers name.
    slices: BTreeMap<(String, String, InstantTime), Vec<String>>,
}

/// The plan for a pending write.
pub(super) fn make(storage: &Arc<dyn Storage>, timeline: &Timeline, target: &Instant) -> Result<RollbackPlan> {
    let mut finder = Finder {
        storage,
        timeline,
        target: target.requested,
        base: base_of(&**storage),
        requests: Vec::new(),
        slices: BTreeMap::new(),
    };
    // What is only requested has written nothing.
    if target.state == State::Inflight {
        match markers::read(&**storage, target.requested)? {
            Some(markers) => finder.by_markers(&markers)?,
            None => finder.by_listing(target)?,
        }
    }
    finder.add_slices()?;
    Ok(RollbackPlan { target: Some((target.requested, target.action)), requests: finder.requests })
}

/// What Java takes for a whole path: without a scheme on a local disk.
pub(in crate::write) fn base_of(storage: &dyn Storage) -> String {
    let local = storage.local_path(&TablePath::root());
    match local.as_deref().and_then(|p| p.to_str()) {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => storage.uri().to_owned(),
    }
}

impl Finder<'_> {
    fn by_markers(&mut self, markers: &[Marker]) -> Result<()> {
        for marker in markers {
            match FileName::parse(&marker.file) {
                FileName::Log(log) if marker.kind == MarkerKind::Append => {
                    self.log(&marker.partition, &log, &marker.file)
                }
                // Before 0.14.1 the marker of a log file named a base file that does not exist: its group and slice.
                FileName::Base(base) if marker.kind == MarkerKind::Append => {
                    self.slice(&marker.partition, base.file_id, base.instant, None);
                }
                _ => self.delete(&marker.partition, &marker.file, None),
            }
        }
        Ok(())
    }

    /// Files of the write by their names; and in version 6 what its work profile says of log files.
    fn by_listing(&mut self, target: &Instant) -> Result<()> {
        let keeps_logs = matches!(target.action, Action::Compaction);
        for partition in self.partitions(target)? {
            for file in self.files(&partition)? {
                match FileName::parse(&file) {
                    FileName::Base(base) if base.instant == self.target => self.delete(partition.as_str(), &file, None),
                    FileName::Log(log) if log.instant == self.target && !keeps_logs => {
                        self.delete(partition.as_str(), &file, Some(log.file_id.to_owned()));
                    }
                    _ => {}
                }
            }
        }
        if !self.timeline.config().version().slices_by_completion_time() && !keeps_logs {
            self.profiled_logs(target)?;
        }
        Ok(())
    }

    fn partitions(&self, target: &Instant) -> Result<Vec<TablePath>> {
        if matches!(target.action, Action::Compaction | Action::LogCompaction) {
            let plans = self.timeline.compaction_plans(&**self.storage, &[target])?;
            let operations = plans.iter().flatten().flat_map(|p| &p.operations);
            let partitions: BTreeSet<&str> = operations.map(|o| o.partition.as_str()).collect();
            return partitions.into_iter().map(TablePath::parse).collect();
        }
        // The metadata table does not know the files of a write that did not complete.
        self.lister().partitions()
    }

    fn lister(&self) -> StorageLister {
        StorageLister::new(self.storage.clone(), TablePath::root(), self.timeline.config())
    }

    fn files(&self, partition: &TablePath) -> Result<Vec<String>> {
        Ok(self.lister().files(partition)?.into_iter().map(|f| f.name).collect())
    }

    fn profiled_logs(&mut self, target: &Instant) -> Result<()> {
        let inflight = Instant { state: State::Inflight, completion: None, ..*target };
        let bytes = match self.timeline.read(&**self.storage, &inflight) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let profile = CommitMetadata::parse(&bytes)?;
        for partition in &profile.written {
            for stat in partition.stats.iter().filter(|s| !s.file_id.is_empty()) {
                if let Some(base) = stat.previous.as_deref().and_then(InstantTime::parse) {
                    self.slice(&partition.partition, &stat.file_id, base, None);
                }
            }
        }
        Ok(())
    }

    fn log(&mut self, partition: &str, log: &LogName<'_>, name: &str) {
        match log.instant == self.target || self.timeline.config().version().slices_by_completion_time() {
            true => self.delete(partition, name, Some(log.file_id.to_owned())),
            false => self.slice(partition, log.file_id, log.instant, Some(name)),
        }
    }

    fn slice(&mut self, partition: &str, file_id: &str, base_instant: InstantTime, log: Option<&str>) {
        let logs = self.slices.entry((partition.to_owned(), file_id.to_owned(), base_instant)).or_default();
        logs.extend(log.map(str::to_owned));
    }

    fn delete(&mut self, partition: &str, name: &str, file_id: Option<String>) {
        let slash = if partition.is_empty() { "" } else { "/" };
        let file_id = file_id.or_else(|| BaseName::parse(name).map(|b| b.file_id.to_string()));
        self.requests.push(RollbackRequest {
            partition: partition.to_owned(),
            file_id,
            base_instant: Some(self.target),
            files: vec![format!("{}/{partition}{slash}{name}", self.base)],
            log_blocks: BTreeMap::new(),
        });
    }

    /// A request for each slice that has log files at all.
    fn add_slices(&mut self) -> Result<()> {
        let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((partition, file_id, base_instant), logs) in std::mem::take(&mut self.slices) {
            if !listed.contains_key(&partition) {
                listed.insert(partition.clone(), self.files(&TablePath::parse(&partition)?)?);
            }
            let names = listed.get(&partition).map_or(&[][..], Vec::as_slice);
            // A file that was not finished has no name yet, and goes with the one that it was to have.
            for log in logs.iter().filter(|l| !names.contains(l)) {
                self.delete(&partition, log, Some(file_id.clone()));
            }
            let Some(newest) = newest_log(names, &file_id, base_instant) else { continue };
            let path = TablePath::parse(&partition)?.join(newest)?;
            let size = self.storage.stat(&path)?.size;
            self.requests.push(RollbackRequest {
                partition,
                file_id: Some(file_id),
                base_instant: Some(base_instant),
                files: Vec::new(),
                log_blocks: BTreeMap::from([(newest.to_owned(), size)]),
            });
        }
        Ok(())
    }
}

/// The newest log file of a slice of version 6.
pub(super) fn newest_log<'n>(names: &'n [String], file_id: &str, base_instant: InstantTime) -> Option<&'n str> {
    let logs = names.iter().filter_map(|n| LogName::parse(n).map(|log| (log, n.as_str())));
    let of_slice = logs.filter(|(log, _)| log.file_id == file_id && log.instant == base_instant && !log.cdc);
    of_slice.max_by(|(a, _), (b, _)| a.order(b)).map(|(_, name)| name)
}
