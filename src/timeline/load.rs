//! Listing the timeline folder and grouping its files into instants.
//!
//! All states of an instant stay on disk side by side; an instant counts once, in its highest state. Two files are of one
//! instant if their times agree and the actions that they complete as: a pending compaction and the commit it became.
//!
//! An upgrade to layout 2, or back, moves the instants one by one and changes `hoodie.properties` last. Meanwhile, or after one
//! that was cut off, the folder that the properties name misses commits, and what they replaced: it is refused.

use super::content::Contents;
use super::{Inner, Timeline};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime, Layout, State};
use crate::format::properties::TableConfig;
use crate::storage::{DirEntry, EntryKind, Storage, TablePath};
use std::sync::Arc;

/// Where layouts 0 and 1 keep instants.
const FOLDER_V1: &str = ".hoodie";
/// Where layout 2 keeps them, below that; an upgrade takes the default.
const NAME_V2: &str = "timeline";

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
        Err(e) if e.kind() == ErrorKind::NotFound && storage.is_object_store() => Vec::new(),
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(no_folder(&folder)),
        Err(e) => return Err(e.context(format!("listing the timeline folder {folder}"))),
    };
    let layout = config.layout();
    let instants = group(parse(layout, &entries));
    match layout {
        Layout::V2 => refuse_half_downgraded(storage, root, &instants, before)?,
        Layout::V0 | Layout::V1 => refuse_half_upgraded(storage, root, &entries, &instants)?,
    }
    if let Some(before) = before.filter(|b| b.0.instants == instants) {
        return Ok(before.clone());
    }
    Ok(Timeline(Arc::new(build(root, config, folder, instants, before))))
}

/// On a local disk Hudi makes the folder with the table. Without it the table would look empty.
fn no_folder(folder: &TablePath) -> Error {
    Error::corrupt(format!("the timeline folder {folder} does not exist"))
        .with_hint("restore it; if it was moved, hoodie.timeline.path in hoodie.properties names it")
}

fn parse(layout: Layout, entries: &[DirEntry]) -> Vec<Instant> {
    // A name counts whatever bears it, as in Hudi: a folder in the place of a commit must not hide the commit.
    entries.iter().filter_map(|e| Instant::parse_file_name(layout, &e.name)).collect()
}

/// Refuses a timeline of layout 1 of which completed instants lie where layout 2 has them, and no longer here. Costs nothing
/// without that folder, which only an upgrade makes.
fn refuse_half_upgraded(
    storage: &dyn Storage,
    root: &TablePath,
    entries: &[DirEntry],
    instants: &[Instant],
) -> Result<()> {
    if !entries.iter().any(|e| e.kind == EntryKind::Dir && e.name == NAME_V2) {
        return Ok(());
    }
    let folder = root.join(FOLDER_V1)?.join(NAME_V2)?;
    let there = match storage.list(&folder) {
        Ok(entries) => parse(Layout::V2, &entries),
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e.context(format!("listing {folder}"))),
    };
    let here = |moved: &Instant| instants.iter().any(|i| i.requested == moved.requested && i.is_completed());
    match there.iter().find(|i| i.is_completed() && i.action.is_write() && !here(i)) {
        Some(moved) => Err(half_moved(moved, &folder)),
        None => Ok(()),
    }
}

/// Refuses a timeline of layout 2 that lost completed instants which now lie where layout 1 has them.
fn refuse_half_downgraded(
    storage: &dyn Storage,
    root: &TablePath,
    instants: &[Instant],
    before: Option<&Timeline>,
) -> Result<()> {
    let has = |time: InstantTime| instants.iter().any(|i| i.requested == time && i.is_completed());
    let written = before.map_or(&[][..], |b| &b.0.written);
    let lost: Vec<InstantTime> = written.iter().copied().filter(|time| !has(*time)).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let folder = root.join(FOLDER_V1)?;
    let entries = storage.list(&folder).map_err(|e| e.context(format!("listing {folder}")))?;
    match parse(Layout::V1, &entries).iter().find(|i| i.is_completed() && lost.contains(&i.requested)) {
        Some(moved) => Err(half_moved(moved, &folder)),
        None => Ok(()),
    }
}

fn half_moved(moved: &Instant, folder: &TablePath) -> Error {
    Error::corrupt(format!(
        "the timeline lies in two places: {moved} is in {folder}, which is not the timeline's folder by hoodie.properties"
    ))
    .with_hint("an upgrade or downgrade of the table is under way, or was cut off: the next write with that release of Hudi ends it")
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
