//! Checks of a table's partitions and files: both listings agree, no data lies where no reader looks, and what the
//! read-optimized view leaves out.

use super::finding::{Area, Findings};
use crate::cli::output;
use crate::error::{ErrorKind, Result};
use crate::format::file_name::{FileName, LogName, PARTITION_METADATA};
use crate::format::instant::InstantTime;
use crate::storage::{EntryKind, Storage, TablePath};
use crate::table::Snapshot;
use crate::view::PartitionView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const AREA: Area = Area::Table;
/// Directories looked at in search of data that belongs to no partition.
const DIRECTORIES_MAX: usize = 200_000;
/// Findings of one kind before only their number is told.
const SAME_MAX: usize = 20;

/// What is counted over all partitions.
#[derive(Default)]
struct Totals {
    listed: u64,
    listed_bytes: u64,
    log_only: u64,
    behind: u64,
    oldest_behind: Option<InstantTime>,
    replaced: u64,
    pending: u64,
    failed: u64,
    foreign: u64,
    other_formats: BTreeMap<&'static str, u64>,
    differing: usize,
    no_metafile: Vec<String>,
}

/// Makes all of them.
pub fn check(
    storage: &Arc<dyn Storage>,
    from_storage: &Snapshot,
    from_metadata: Option<&Snapshot>,
    findings: &mut Findings,
) {
    let partitions = match from_storage.partitions() {
        Ok(partitions) => partitions,
        Err(error) => return findings.table_error("partitions", storage.uri(), &error),
    };
    let mut totals = Totals::default();
    let mut all: BTreeSet<TablePath> = partitions.iter().cloned().collect();
    if let Some(metadata) = from_metadata {
        match metadata.partitions() {
            Ok(listed) => {
                same_partitions(from_storage, &**storage, &listed, findings);
                all.extend(listed.iter().cloned());
            }
            Err(error) => findings.table_error("metadata-table", "", &error),
        }
    }
    for partition in &all {
        if let Err(error) = one(&**storage, from_storage, from_metadata, partition, &mut totals, findings) {
            findings.table_error("partition", partition.as_str(), &error);
        }
    }
    if let Err(error) = unclaimed(&**storage, &all, findings) {
        findings.table_error("partitions", storage.uri(), &error);
    }
    totals.report(all.len(), from_storage, from_metadata.is_some(), findings);
}

/// Partitions that only one of the two listings knows.
fn same_partitions(snapshot: &Snapshot, storage: &dyn Storage, listed: &[TablePath], findings: &mut Findings) {
    let stored = snapshot.partitions().unwrap_or_default();
    let (stored, listed): (BTreeSet<_>, BTreeSet<_>) = (stored.iter().collect(), listed.iter().collect());
    for partition in listed.difference(&stored) {
        // Deleted partitions stay in the metadata table; their folders may be gone or empty.
        if storage.list(partition).is_ok_and(|entries| !entries.is_empty()) {
            findings.note(
                AREA,
                "metadata-table",
                partition.as_str(),
                "the metadata table knows the partition, a listing of storage does not: it has no partition metadata file",
                "Hudi's readers find it through the metadata table only",
            );
        }
    }
    // A partition without a file, as the base of an empty table is, need not be listed.
    let has_files = |p: &&&TablePath| !snapshot.partition(p).is_ok_and(|view| view.is_empty());
    for partition in stored.difference(&listed).filter(has_files) {
        findings.error(
            AREA,
            "metadata-table",
            partition.as_str(),
            "the partition is in storage and missing from the metadata table",
            "rebuild the metadata table with Hudi; until then mount with --listing storage",
        );
    }
}

fn one(
    storage: &dyn Storage,
    from_storage: &Snapshot,
    from_metadata: Option<&Snapshot>,
    partition: &TablePath,
    totals: &mut Totals,
    findings: &mut Findings,
) -> Result<()> {
    let view = from_storage.partition(partition)?;
    totals.listed += view.listed_len() as u64;
    totals.listed_bytes = totals.listed_bytes.saturating_add(view.listed_bytes());
    totals.log_only += u64::from(view.log_only_groups());
    if let Some(metadata) = from_metadata {
        same_files(partition, &view, &metadata.partition(partition)?, totals, findings);
    }
    let entries = match storage.list(partition) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let names: Vec<&str> =
        entries.iter().filter(|e| matches!(e.kind, EntryKind::File { .. })).map(|e| e.name.as_str()).collect();
    if !partition.is_root() && !names.iter().any(|n| n.starts_with(PARTITION_METADATA)) && !names.is_empty() {
        totals.no_metafile.push(partition.to_string());
    }
    count_files(from_storage, partition, &view, &names, totals);
    Ok(())
}

/// The read-optimized files by both listings.
fn same_files(
    partition: &TablePath,
    stored: &PartitionView,
    listed: &PartitionView,
    totals: &mut Totals,
    findings: &mut Findings,
) {
    let of = |view: &PartitionView| -> BTreeMap<String, Option<u64>> {
        view.listed().map(|f| (f.name().to_owned(), f.size())).collect()
    };
    let (stored, listed) = (of(stored), of(listed));
    let names: BTreeSet<&String> = stored.keys().chain(listed.keys()).collect();
    for name in names {
        let message = match (stored.get(name), listed.get(name)) {
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => format!("the metadata table says {b:?} bytes, storage says {a:?}"),
            (Some(_), None) => "the file is in storage and missing from the metadata table".to_owned(),
            _ => "the metadata table lists the file, and storage does not have it".to_owned(),
        };
        totals.differing += 1;
        if totals.differing <= SAME_MAX {
            let remedy = "rebuild the metadata table with Hudi; until then mount with --listing storage";
            findings.error(AREA, "metadata-table", &format!("{partition}/{name}"), &message, remedy);
        }
    }
}

/// Sorts every file of a partition into what a reader makes of it.
fn count_files(snapshot: &Snapshot, partition: &TablePath, view: &PartitionView, names: &[&str], totals: &mut Totals) {
    let timeline = snapshot.timeline();
    let mut newest_log: BTreeMap<&str, InstantTime> = BTreeMap::new();
    for name in names {
        match FileName::parse(name) {
            FileName::Base(base) => {
                match base.extension {
                    ".orc" => *totals.other_formats.entry("ORC").or_default() += 1,
                    ".lance" => *totals.other_formats.entry("Lance").or_default() += 1,
                    _ => {}
                }
                if timeline.is_pending_write(base.instant) {
                    totals.pending += 1;
                } else if !timeline.is_committed(base.instant) {
                    totals.failed += 1;
                } else if snapshot.context().replaced_at(partition.as_str(), base.file_id).is_some() {
                    totals.replaced += 1;
                }
            }
            FileName::Log(LogName { file_id, instant, cdc: false, .. }) => {
                let newest = newest_log.entry(file_id).or_insert(instant);
                *newest = (*newest).max(instant);
            }
            FileName::Foreign | FileName::BadMark(_) => totals.foreign += 1,
            _ => {}
        }
    }
    // Up to version 6 a log carries its base's instant, later its own: either way it belongs to the newest slice if it is
    // not older than the base.
    for file in view.listed() {
        if newest_log.get(file.file_id()).is_some_and(|log| *log >= file.instant()) {
            totals.behind += 1;
            let oldest = totals.oldest_behind.get_or_insert(file.instant());
            *oldest = (*oldest).min(file.instant());
        }
    }
}

/// Directories that hold Parquet files and belong to no partition.
fn unclaimed(storage: &dyn Storage, partitions: &BTreeSet<TablePath>, findings: &mut Findings) -> Result<()> {
    let mut pending = vec![TablePath::root()];
    let mut seen = 0;
    let mut found = 0;
    while let Some(dir) = pending.pop() {
        seen += 1;
        if seen > DIRECTORIES_MAX {
            findings.note(AREA, "partitions", "", &format!("the search stopped after {seen} directories"), "");
            break;
        }
        let entries = storage.list(&dir)?;
        let data = entries.iter().any(|e| matches!(e.kind, EntryKind::File { .. }) && is_data(&e.name));
        if data && !partitions.contains(&dir) {
            found += 1;
            if found <= SAME_MAX {
                findings.warn(
                    AREA,
                    "partitions",
                    dir.as_str(),
                    "the directory holds data files, and is not a partition of the table",
                    "its partition metadata file is missing, or the files are not the table's",
                );
            }
        }
        for entry in entries.iter().filter(|e| e.kind == EntryKind::Dir && !e.name.starts_with('.')) {
            pending.push(dir.join(&entry.name)?);
        }
    }
    Ok(())
}

fn is_data(name: &str) -> bool {
    matches!(FileName::parse(name), FileName::Base(_) | FileName::External(_)) || name.ends_with(".parquet")
}

impl Totals {
    fn report(&self, partitions: usize, snapshot: &Snapshot, compared: bool, findings: &mut Findings) {
        let size = output::size(self.listed_bytes);
        let at = snapshot.instant().map(|i| i.to_string()).unwrap_or_else(|| "no commit".to_owned());
        let message = format!("{} files, {size}, in {partitions} partitions at {at}", self.listed);
        findings.ok(AREA, "files", &message);
        if compared && self.differing == 0 {
            findings.ok(AREA, "metadata-table", "it lists the same files as storage");
        }
        if self.differing > SAME_MAX {
            let message = format!("{} files differ between the metadata table and storage", self.differing);
            findings.error(AREA, "metadata-table", "", &message, "");
        }
        self.report_left_out(snapshot, findings);
        if let Some(first) = self.no_metafile.first() {
            let message = format!("{} partitions lack their metadata file", self.no_metafile.len());
            let remedy =
                "readers that list storage miss them; `repair addpartitionmeta` of Hudi's CLI writes the files";
            findings.warn(AREA, "partition-metafile", first, &message, remedy);
        }
    }

    /// Files that lie in storage and are not in the view, each kind with its reason.
    fn report_left_out(&self, snapshot: &Snapshot, findings: &mut Findings) {
        let mut note = |count: u64, check: &str, message: &str, remedy: &str| {
            if count > 0 {
                findings.note(AREA, check, "", &format!("{count} {message}"), remedy);
            }
        };
        note(self.pending, "uncommitted", "base files belong to writes that are not completed; they are not shown", "");
        note(
            self.replaced,
            "replaced",
            "base files of replaced file groups wait for the cleaner; they are not shown",
            "",
        );
        note(
            self.foreign,
            "foreign",
            "files do not have names of Hudi's; they are not shown",
            "remove them if nothing needs them",
        );
        let oldest = self.oldest_behind.map(|i| i.to_string()).unwrap_or_default();
        let newest = snapshot.instant().map(|i| i.to_string()).unwrap_or_default();
        note(
            self.behind,
            "read-optimized-lag",
            &format!(
                "file groups have log files newer than their base file, the oldest from {oldest} (newest commit {newest})"
            ),
            "a read-optimized view shows them as of their last compaction; compact to bring it up to date",
        );
        for (format, count) in &self.other_formats {
            note(*count, "format", &format!("base files are {format}, not Parquet; engines may not read them"), "");
        }
        if self.failed > 0 {
            let message = format!("{} base files were left by writes that failed; they are not shown", self.failed);
            findings.warn(AREA, "uncommitted", "", &message, "the next write or clean with Hudi removes them");
        }
        if self.log_only > 0 {
            let message = format!(
                "{} file groups have only log files; a read-optimized view shows nothing of them",
                self.log_only
            );
            findings.warn(AREA, "log-only", "", &message, "compact the table, or read its merged view with Hudi");
        }
    }
}
