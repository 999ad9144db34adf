//! Listing the timeline folder and grouping its files into instants.
//!
//! All states of an instant stay on disk side by side; an instant counts once, in its highest state. Two files are of one
//! instant if their times agree and the actions that they complete as: a pending compaction and the commit it became.

use super::content::Contents;
use super::{Inner, Timeline};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, State};
use crate::format::properties::TableConfig;
use crate::storage::{EntryKind, Storage, TablePath};
use std::sync::Arc;

pub(super) fn load(
    storage: &dyn Storage,
    root: &TablePath,
    config: &TableConfig,
    before: Option<&Timeline>,
) -> Result<Timeline> {
    // The properties may name the folder, and must not lead out of the table.
    let folder =
        root.join(&config.timeline_folder()).map_err(|e| Error::corrupt(e.message()).context("timeline folder"))?;
    let entries = match storage.list(&folder) {
        Ok(entries) => entries,
        // Object stores have no empty folders, and a table may have no instant yet.
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e.context(format!("listing the timeline folder {folder}"))),
    };
    let layout = config.layout();
    let files = entries.iter().filter(|e| matches!(e.kind, EntryKind::File { .. }));
    let instants = group(files.filter_map(|e| Instant::parse_file_name(layout, &e.name)).collect());
    if let Some(before) = before.filter(|b| b.0.instants == instants) {
        return Ok(before.clone());
    }
    Ok(Timeline(Arc::new(build(root, config, folder, instants, before))))
}

fn build(
    root: &TablePath,
    config: &TableConfig,
    folder: TablePath,
    instants: Vec<Instant>,
    before: Option<&Timeline>,
) -> Inner {
    let times = |completed: bool| {
        let of_state = instants.iter().filter(move |i| i.action.is_write() && i.is_completed() == completed);
        let mut times: Vec<InstantTime> = of_state.map(|i| i.requested).collect();
        times.dedup();
        times
    };
    let (written, unwritten) = (times(true), times(false));
    let first = first_of(&written, &instants);
    // Names of instants are not used twice, except where a whole table is made anew: then some completed one is gone.
    let grown = before.filter(|b| b.0.written.iter().all(|t| written.binary_search(t).is_ok()));
    let contents = grown.map_or_else(|| Arc::new(Contents::default()), |b| b.0.contents.clone());
    Inner { root: root.clone(), config: config.clone(), folder, instants, written, unwritten, first, contents }
}

/// Archival may pass over savepointed commits and leave them behind: the timeline starts after those.
fn first_of(written: &[InstantTime], instants: &[Instant]) -> Option<InstantTime> {
    let savepointed = |time: &InstantTime| {
        let start = instants.partition_point(|i| i.requested < *time);
        let same = instants.iter().skip(start).take_while(|i| i.requested == *time);
        same.into_iter().any(|i| i.action == Action::Savepoint && i.state == State::Completed)
    };
    written.iter().find(|t| !savepointed(t)).copied()
}

/// One entry an instant, sorted.
pub(super) fn group(mut files: Vec<Instant>) -> Vec<Instant> {
    // Of two completed files of one instant the later completion comes last; a one-timestamp name states none, and comes first.
    files.sort_by_key(|i| (i.requested, i.action.completes_as(), i.state, i.completion, i.action));
    files.dedup_by(|later, kept| {
        let same = later.requested == kept.requested && later.action.completes_as() == kept.action.completes_as();
        if same {
            *kept = *later;
        }
        same
    });
    files
}
