//! Loading one partition: list, slice, and ask for the sizes of what is listed.

use super::cleaned::refuse_if_cleaned;
use super::slice::{Attempts, Version};
use super::{ListedFile, Lister, PartitionView, SIZE_UNKNOWN, Sliced, ViewContext, slice};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};

/// Where a METADATA_ONLY bootstrap keeps its index.
const BOOTSTRAP_INDEX: &str = ".hoodie/.aux/.bootstrap/.fileids";

/// The read-optimized view of one partition. Costs one listing; on local disks one stat a listed file, made in one go.
///
/// Warnings go to the timeline's list.
pub fn load_partition(
    storage: &dyn Storage,
    context: &ViewContext,
    lister: &dyn Lister,
    partition: &TablePath,
) -> Result<PartitionView> {
    load_listed(storage, context, partition, &lister.files(partition)?, lister.is_record())
}

/// The same from names that have been listed already; `is_record` as [`Lister::is_record`] has it.
pub fn load_listed(
    storage: &dyn Storage,
    context: &ViewContext,
    partition: &TablePath,
    files: &[ListedFile],
    is_record: bool,
) -> Result<PartitionView> {
    let mut choose = |attempts: &Attempts<'_>| committed_attempt(storage, context, partition.as_str(), attempts);
    let mut sliced = slice(context, partition.as_str(), files, is_record, &mut choose)?;
    for line in std::mem::take(&mut sliced.warnings) {
        context.timeline().warn(line);
    }
    refuse_skeletons(storage, context, &mut sliced)?;
    refuse_if_cleaned(storage, context, partition.as_str(), files, &sliced)?;
    fill_sizes(storage, partition, &mut sliced)?;
    Ok(sliced.into_view())
}

/// The attempt that the commit names. A commit that is archived, empty or damaged names none.
fn committed_attempt(
    storage: &dyn Storage,
    context: &ViewContext,
    partition: &str,
    attempts: &Attempts<'_>,
) -> Result<Option<usize>> {
    let timeline = context.timeline();
    let Some(commit) = timeline.find_write(attempts.instant) else { return Ok(None) };
    let metadata = match timeline.commit_metadata(storage, commit) {
        Ok(metadata) => metadata,
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => return Ok(None),
        Err(e) => return Err(e),
    };
    let named = metadata.stats_of(partition).iter().rev().find(|s| s.file_id == attempts.file_id);
    Ok(named.and_then(|stat| attempts.names.iter().position(|n| Some(*n) == stat.file_name())))
}

/// A skeleton of a METADATA_ONLY bootstrap holds no data columns: it must not pass for a data file. Groups that were rewritten
/// since are whole, and their skeletons are forgotten.
fn refuse_skeletons(storage: &dyn Storage, context: &ViewContext, sliced: &mut Sliced<'_>) -> Result<()> {
    let Some(bootstrap) = InstantTime::parse(InstantTime::METADATA_BOOTSTRAP) else { return Ok(()) };
    let is_skeleton = |v: &Version<'_>| v.instant == bootstrap && !v.external;
    if !sliced.versions.iter().any(is_skeleton) || !is_bootstrapped(storage, context)? {
        return Ok(());
    }
    let skeletons: Vec<&Version<'_>> = sliced.versions.iter().filter(|v| v.listed && is_skeleton(v)).collect();
    if let Some(first) = skeletons.first() {
        let source = context.config().bootstrap_base_path().unwrap_or("a dataset that is not named");
        return Err(Error::unsupported(format!(
            "{} files, {:?} first, are skeletons of a METADATA_ONLY bootstrap over {source}: they hold no data columns",
            skeletons.len(),
            first.name,
        ))
        .with_hint("read the table with Hudi, or rewrite these file groups (clustering does); then they are shown"));
    }
    sliced.versions.retain(|v| !is_skeleton(v));
    Ok(())
}

fn is_bootstrapped(storage: &dyn Storage, context: &ViewContext) -> Result<bool> {
    if context.config().bootstrap_base_path().is_some() {
        return Ok(true);
    }
    match storage.list(&context.timeline().root().join(BOOTSTRAP_INDEX)?) {
        Ok(entries) => Ok(entries.iter().any(|e| e.name.ends_with(".hfile"))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Asks for the sizes of listed files that the listing did not tell. Older versions are asked for when they are opened.
fn fill_sizes(storage: &dyn Storage, partition: &TablePath, sliced: &mut Sliced<'_>) -> Result<()> {
    let unknown = |v: &Version<'_>| v.listed && v.size == SIZE_UNKNOWN;
    let stored = |v: &Version<'_>| if v.external { v.file_id.to_string() } else { v.name.to_string() };
    let paths: Vec<String> = sliced.versions.iter().filter(|v| unknown(v)).map(stored).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    let metas = storage.stat_many(partition, &names);
    for (version, meta) in sliced.versions.iter_mut().filter(|v| unknown(v)).zip(metas) {
        version.size = meta.map_err(|e| e.context(format!("{partition}/{}", version.name)))?.size;
    }
    Ok(())
}
