//! Checks of a table's properties and timeline, and of its metadata table; `partitions` goes on with the files.

use super::finding::{Area, Findings};
use super::partitions;
use crate::error::ErrorKind;
use crate::format::instant::{Action, Instant, State};
use crate::format::properties::{Properties, TableConfig};
use crate::storage::{EntryKind, Storage, TablePath};
use crate::table::{Listing, Snapshot, Table, TableOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const AREA: Area = Area::Table;
const PROPERTIES: &str = ".hoodie/hoodie.properties";
const PROPERTIES_MAX: u64 = 64 << 20;
/// A write that is pending for longer than this has probably died, milliseconds.
const PENDING_LONG_MS: i64 = 24 * 3600 * 1000;

/// Makes all of them. False if there is no table.
pub fn check(storage: &Arc<dyn Storage>, findings: &mut Findings) -> bool {
    let uri = storage.uri().to_owned();
    let table = match Table::open(storage.clone(), TableOptions { listing: Listing::Storage, as_of: None }) {
        Ok(table) => table,
        Err(error) => {
            findings.table_error("open", &uri, &error);
            return error.kind() != ErrorKind::NotFound;
        }
    };
    let snapshot = table.snapshot();
    properties(&**storage, snapshot.config(), findings);
    for warning in snapshot.warnings() {
        findings.warn(AREA, "timeline", "", &warning, "");
    }
    timeline_folder(&**storage, &snapshot, findings);
    commits(&**storage, &snapshot, findings);
    pending(&snapshot, findings);
    let metadata = metadata_table(storage, &snapshot, findings);
    partitions::check(storage, &snapshot, metadata.as_deref(), findings);
    true
}

fn properties(storage: &dyn Storage, config: &TableConfig, findings: &mut Findings) {
    let kind = crate::daemon::service::table_type_name(config.table_type());
    let message = format!("{}: {kind}, version {}", config.name(), config.version().code());
    findings.ok(AREA, "properties", &message);
    let Ok(path) = TablePath::parse(PROPERTIES) else { return };
    match storage.read(&path, PROPERTIES_MAX) {
        Err(error) => findings.warn(
            AREA,
            "properties",
            PROPERTIES,
            &format!("{}; the backup is used", error.message()),
            "a writer died while it changed the file; the next write by Hudi repairs it",
        ),
        Ok(bytes) => match TableConfig::parse(&bytes) {
            Err(error) => findings.warn(
                AREA,
                "properties",
                PROPERTIES,
                &format!("{}; the backup is used", error.message()),
                "the next write by Hudi repairs it from the backup",
            ),
            Ok(_) if Properties::parse(&bytes).get("hoodie.table.checksum").is_none() => findings.note(
                AREA,
                "properties",
                PROPERTIES,
                "there is no hoodie.table.checksum, so damage to the file would not be noticed",
                "tables written by Hudi 0.11 and above have one",
            ),
            Ok(_) => findings.ok(AREA, "properties", "the checksum is right"),
        },
    }
}

/// Looks at every file of the timeline folder: names that mean nothing, and instants whose earlier states are missing.
fn timeline_folder(storage: &dyn Storage, snapshot: &Snapshot, findings: &mut Findings) {
    let timeline = snapshot.timeline();
    let folder = timeline.folder();
    let entries = match storage.list(folder) {
        Ok(entries) => entries,
        // A table without a commit may lack the folder.
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return findings.table_error("timeline", folder.as_str(), &error),
    };
    let layout = snapshot.config().layout();
    let mut requested = BTreeSet::new();
    let mut completed: Vec<Instant> = Vec::new();
    for entry in entries.iter().filter(|e| matches!(e.kind, EntryKind::File { .. })) {
        match Instant::parse_file_name(layout, &entry.name) {
            Some(instant) if instant.state == State::Completed => completed.push(instant),
            Some(instant) => drop(requested.insert(instant.requested)),
            None if is_expected(&entry.name) => {}
            None => {
                findings.note(AREA, "timeline", &entry.name, "the file's name is not an instant's; it is ignored", "")
            }
        }
    }
    // Savepoints have no requested state, and very old releases wrote none for commits.
    for instant in completed.iter().filter(|i| i.action != Action::Savepoint && !requested.contains(&i.requested)) {
        findings.note(
            AREA,
            "timeline",
            &instant.file_name(),
            "the instant is completed, but its requested and inflight files are missing",
            "harmless to readers; somebody has removed files from the timeline, or a very old release wrote it",
        );
    }
    findings.ok(AREA, "timeline", &format!("{} instants are active", timeline.instants().len()));
}

/// What may lie in the timeline folder besides instants: layout 1 keeps it in `.hoodie` itself.
fn is_expected(name: &str) -> bool {
    name.starts_with("hoodie.properties") || name.starts_with('.') || name.ends_with(".crc") || name.starts_with("_")
}

/// Reads what every completed write says it wrote.
fn commits(storage: &dyn Storage, snapshot: &Snapshot, findings: &mut Findings) {
    let mut read = 0;
    for instant in snapshot.timeline().writes() {
        match snapshot.timeline().commit_metadata(storage, instant) {
            Err(error) => findings.table_error("commit", &instant.file_name(), &error),
            Ok(metadata) if metadata.empty => findings.warn(
                AREA,
                "commit",
                &instant.file_name(),
                "the commit's file is empty: what it wrote is known from file names only",
                "it counts as a commit of nothing in Hudi's own readers; compare the data with its source",
            ),
            Ok(_) => read += 1,
        }
    }
    findings.ok(AREA, "commit", &format!("{read} commits can be read"));
}

fn pending(snapshot: &Snapshot, findings: &mut Findings) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
    for instant in snapshot.timeline().pending() {
        let age_ms = now - snapshot.instant_ms(instant.requested);
        let (action, name) = (instant.action.name(), instant.file_name());
        let is_service = matches!(
            instant.action,
            Action::Compaction | Action::LogCompaction | Action::Clustering | Action::Indexing | Action::Clean
        );
        if is_service {
            let message = format!("a {action} is planned or running; readers see the table as before it");
            findings.note(AREA, "pending", &name, &message, "run it with Hudi's table services, or roll it back");
        } else if age_ms > PENDING_LONG_MS {
            let message =
                format!("a {action} has been pending for {} hours; its writer has probably died", age_ms / 3_600_000);
            findings.warn(AREA, "pending", &name, &message, "the next write with Hudi rolls it back");
        } else {
            findings.note(AREA, "pending", &name, &format!("a {action} is being written"), "");
        }
    }
}

/// The table as its metadata table lists it, if it has a usable one.
fn metadata_table(storage: &Arc<dyn Storage>, snapshot: &Snapshot, findings: &mut Findings) -> Option<Arc<Snapshot>> {
    let listed = snapshot.config().metadata_partitions();
    if !listed.contains(&"files") {
        findings.ok(AREA, "metadata-table", "the table has no metadata table; storage is listed");
        return None;
    }
    let options = TableOptions { listing: Listing::MetadataTable, as_of: None };
    match Table::open(storage.clone(), options) {
        Ok(table) => {
            findings.ok(AREA, "metadata-table", &format!("it can be read; partitions: {}", listed.join(", ")));
            Some(table.snapshot())
        }
        Err(error) => {
            let remedy = error.hint().unwrap_or("rebuild it with Hudi: drop .hoodie/metadata and write once");
            let message = format!("{}; storage is listed instead", error.message());
            findings.warn(AREA, "metadata-table", crate::metadata::ROOT, &message, remedy);
            None
        }
    }
}
