//! Views of the past, and views that have become past: are all their files still there?
//!
//! A cleaner removes what the newest view no longer needs. A listing does not show what is missing from it, so a partition that
//! is looked at late, or as of an old instant, could come back short of rows without a word. What the cleaners say that they
//! removed since, or are about to remove, is held against it: a view that has lost a file is an error (`Stale`).
//!
//! A cleaner removes a file only after something has taken its place, so a partition without a base file that the view does
//! not see (of a later commit, or of a write that the view knows as pending) has lost nothing. One that has such files, or none
//! that is seen, is checked against the timeline as it is now: the view's own may be older than the clean.

use super::slice::Version;
use super::{ListedFile, Sliced, ViewContext};
use crate::error::{Error, ErrorKind, Result};
use crate::format::file_name::BaseName;
use crate::format::instant::{Action, Instant, InstantTime};
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::collections::{HashMap, HashSet};

/// Refuses a view that misses a file. Costs nothing where the partition holds only what the view sees; else a listing of the
/// timeline, and a read of each clean since the view's instant, once.
pub(super) fn refuse_if_cleaned(
    storage: &dyn Storage,
    context: &ViewContext,
    partition: &str,
    files: &[ListedFile],
    sliced: &Sliced<'_>,
) -> Result<()> {
    let (Some(as_of), Some(latest)) = (context.as_of(), context.timeline().latest_write()) else { return Ok(()) };
    let known = context.timeline();
    let moved_on = sliced.versions.is_empty() || sliced.unseen_bases;
    let timeline = match (as_of < latest, moved_on) {
        (false, false) => return Ok(()),
        (true, false) => known.clone(),
        (_, true) => known.reload(storage)?,
    };
    if as_of == latest && timeline.same_instants(known) {
        return Ok(());
    }
    if !timeline.contains_completed(as_of) {
        let what = if timeline.is_committed(as_of) {
            format!("commit {as_of} has left the timeline, and with it the account of what cleaners removed since")
        } else {
            format!("commit {as_of} has been undone, and its files with it")
        };
        return Err(stale(what, &timeline));
    }
    let cleans: Vec<&Instant> =
        timeline.instants().iter().filter(|i| i.action == Action::Clean && i.requested > as_of).collect();
    if cleans.is_empty() {
        return Ok(());
    }
    let there: HashSet<&str> = files.iter().map(|f| f.name.as_str()).collect();
    let newest = newest_versions(&sliced.versions);
    let mut later = None;
    for (clean, removed) in cleans.iter().zip(timeline.cleaned(storage, &cleans)?) {
        let Some(removed) = removed else { continue };
        let gone = removed.of(partition).filter(|name| !there.contains(name));
        for base in gone.filter_map(|name| needed(context, partition, name, &newest)) {
            let replaced_later = match &mut later {
                Some(known) => known,
                none => none.insert(replaced_after(storage, &timeline, partition, as_of)?),
            };
            // A group without a later trace that no active replace commit names was replaced by one that is archived, and so
            // before the view's instant: the view does not have it.
            if replaced_later.contains(base.file_id) || goes_on(context, files, base.file_id) {
                let (id, at, clean) = (base.file_id, base.instant, clean.requested);
                return Err(stale(
                    format!("as of {as_of} group {id} has a file of {at}, which clean {clean} removed"),
                    &timeline,
                ));
            }
        }
    }
    Ok(())
}

/// True if the group has a base file that came after the view: of a later instant, or of a compaction that was pending then.
fn goes_on(context: &ViewContext, files: &[ListedFile], file_id: &str) -> bool {
    let bases = files.iter().filter_map(|f| BaseName::parse(&f.name));
    bases.into_iter().any(|b| b.file_id == file_id && !context.is_visible(b.instant))
}

/// The groups of a partition that are replaced after an instant.
fn replaced_after(
    storage: &dyn Storage,
    timeline: &Timeline,
    partition: &str,
    as_of: InstantTime,
) -> Result<HashSet<String>> {
    let commits: Vec<&Instant> =
        timeline.writes().filter(|i| i.action == Action::ReplaceCommit && i.requested > as_of).collect();
    let replacements = timeline.replacements(storage, &commits)?;
    let groups = replacements.iter().flatten().flat_map(|r| &r.replaced);
    Ok(groups.filter(|g| g.partition.trim_matches('/') == partition).flat_map(|g| g.file_ids.clone()).collect())
}

fn newest_versions<'v>(versions: &'v [Version<'_>]) -> HashMap<&'v str, InstantTime> {
    let mut newest = HashMap::new();
    for version in versions.iter().filter(|v| !v.external) {
        let known = newest.entry(&*version.file_id).or_insert(version.instant);
        *known = version.instant.max(*known);
    }
    newest
}

/// A base file that the view may have listed if it were there.
fn needed<'n>(
    context: &ViewContext,
    partition: &str,
    name: &'n str,
    newest: &HashMap<&str, InstantTime>,
) -> Option<BaseName<'n>> {
    let base = BaseName::parse(name)?;
    let needed = base.extension == context.config().base_format().extension()
        && context.is_visible(base.instant)
        && context.replaced_at(partition, base.file_id).is_none()
        && newest.get(base.file_id).is_none_or(|there| *there < base.instant);
    needed.then_some(base)
}

fn stale(what: String, timeline: &Timeline) -> Error {
    let hint = match timeline.latest_write() {
        Some(latest) => format!("look at a newer commit ({latest} is the newest), or let the cleaner retain more"),
        None => "the table has no commit left".to_owned(),
    };
    Error::new(ErrorKind::Stale, what).with_hint(hint)
}
