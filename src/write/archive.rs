//! Archival: old instants leave the active timeline, so that listing it stays cheap.
//!
//! They are written to the archive first and deleted then; a crash in between archives some of them twice, which no reader
//! minds. A replacement stays until the files that it replaced are gone, by a look at the partitions: without it they would come
//! back. All of it happens under the table's lock. Format: docs/format.md, "Archive".

mod choose;
mod files;
mod log;
mod lsm;
mod rows;
mod settings;

pub use settings::ArchiveSettings;

use super::clean::{CleanSettings, METADATA};
use super::report::ServiceReport;
use super::session::{Critical, Session};
use crate::error::{ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, Layout};
use crate::metadata::MetadataLister;
use crate::storage::{Storage, TablePath};
use crate::table::{Snapshot, Table, TableOptions, lease};
use crate::timeline::{InstantWriter, Timeline, load_config};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Archives what the settings say of the table's timeline, and of its metadata table's. `None` where it is not time, or where
/// `force` is not set and archival is not automatic.
pub fn run(session: &Session, force: bool) -> Result<Option<ServiceReport>> {
    let clean = CleanSettings::new(session.options())?;
    let settings = ArchiveSettings::new(session.options(), &clean)?;
    if !force && !settings.automatic {
        return Ok(None);
    }
    let storage = session.storage();
    let leases = lease::read(&**storage, SystemTime::now())?;
    if let Some(why) = leases.holds_everything() {
        tracing::warn!(%why, "nothing is archived");
        return Ok(None);
    }
    let critical = session.critical()?;
    let (data, kept_by_views) = (critical.timeline(), leases.instants().into_iter().next());
    let mut archived = 0;
    let of_metadata = metadata_timeline(storage, data)?;
    let compacted = of_metadata.as_ref().map(|(_, timeline)| last_compaction(timeline));
    // Before its first compaction the metadata table needs all of the timeline.
    if compacted != Some(None) {
        let edges: Vec<InstantTime> =
            kept_by_views.into_iter().chain(compacted.flatten().and_then(|at| after(data, at))).collect();
        archived += archive(storage, data, critical.instants(), &critical, &settings, &edges)?;
    }
    if let Some((storage, timeline)) = of_metadata {
        let data = data.reload(&**session.storage())?;
        let first_write = data.instants().iter().find(|i| i.action.completes_as().is_write());
        let edges: Vec<InstantTime> =
            first_write.into_iter().chain(data.pending().next()).map(|i| i.requested).collect();
        let instants = InstantWriter::new(storage.clone(), &timeline)?;
        archive(&storage, &timeline, &instants, &critical, &settings, &edges)?;
    }
    let detail = format!("{archived} instants left the active timeline");
    let report = ServiceReport { service: "archive".to_owned(), instant: None, items: archived as u64, detail };
    Ok((archived > 0).then_some(report))
}

/// Archives one timeline; the number of instants.
fn archive(
    storage: &Arc<dyn Storage>,
    timeline: &Timeline,
    instants: &InstantWriter,
    critical: &Critical,
    settings: &ArchiveSettings,
    edges: &[InstantTime],
) -> Result<usize> {
    let mut chosen = choose::instants(&**storage, timeline, settings, edges)?;
    if let Some(edge) = still_there(storage, timeline, &chosen)? {
        chosen.retain(|i| i.requested < edge);
    }
    if chosen.is_empty() {
        return Ok(0);
    }
    let files = files::of(&**storage, timeline, &chosen)?;
    let lsm = lsm::Lsm::new(&**storage, timeline)?;
    match timeline.config().layout() {
        Layout::V2 => lsm.write(timeline, &files)?,
        Layout::V0 | Layout::V1 => log::write(&**storage, timeline, &files, settings.batch)?,
    }
    critical.check()?;
    files::delete(instants, &files)?;
    if timeline.config().layout() == Layout::V2 {
        lsm.merge(settings.merge_files)?;
    }
    Ok(chosen.len())
}

/// The first of the replacements among `chosen` of whose groups a file is left.
fn still_there(storage: &Arc<dyn Storage>, timeline: &Timeline, chosen: &[Instant]) -> Result<Option<InstantTime>> {
    let replacing: Vec<&Instant> = chosen.iter().filter(|i| i.action == Action::ReplaceCommit).collect();
    if replacing.is_empty() {
        return Ok(None);
    }
    let snapshot = Table::open(storage.clone(), TableOptions::default())?.snapshot();
    let mut left: HashMap<String, HashSet<String>> = HashMap::new();
    for (commit, replacement) in replacing.iter().zip(timeline.replacements(&**storage, &replacing)?) {
        for groups in replacement.iter().flat_map(|r| &r.replaced) {
            let partition = groups.partition.trim_matches('/');
            if !left.contains_key(partition) {
                let path = TablePath::parse(partition)?;
                let known = snapshot.partitions()?.binary_search(&path).is_ok();
                let there = match known {
                    true => match file_ids(&snapshot, &path) {
                        // A listing does not show what another engine's files are: the replacement stays.
                        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Some(commit.requested)),
                        other => other?,
                    },
                    false => HashSet::new(),
                };
                left.insert(partition.to_owned(), there);
            }
            if left.get(partition).is_some_and(|there| groups.file_ids.iter().any(|id| there.contains(id))) {
                return Ok(Some(commit.requested));
            }
        }
    }
    Ok(None)
}

fn file_ids(snapshot: &Snapshot, partition: &TablePath) -> Result<HashSet<String>> {
    snapshot.visit_histories(partition, |_, groups| Ok(groups.iter().map(|g| g.file_id.to_owned()).collect()))
}

/// The metadata table's storage and timeline, if the table has one.
fn metadata_timeline(storage: &Arc<dyn Storage>, data: &Timeline) -> Result<Option<(Arc<dyn Storage>, Timeline)>> {
    if !MetadataLister::is_available(data) {
        return Ok(None);
    }
    let storage = storage.rooted_at(&TablePath::parse(METADATA)?)?;
    let config = load_config(&*storage, &TablePath::root())?;
    let timeline = Timeline::load(&*storage, &TablePath::root(), &config)?;
    Ok(Some((storage, timeline)))
}

fn last_compaction(metadata: &Timeline) -> Option<InstantTime> {
    metadata.completed().rfind(|i| i.action == Action::Commit).map(|i| i.requested)
}

/// The first write that the compaction of the metadata table did not take in.
fn after(data: &Timeline, compaction: InstantTime) -> Option<InstantTime> {
    let late = |i: &&Instant| i.completion.unwrap_or(i.requested) > compaction;
    match data.config().layout() {
        Layout::V2 => data.writes().find(late).map(|i| i.requested),
        Layout::V0 | Layout::V1 => Some(compaction),
    }
}
