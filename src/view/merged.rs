//! File slices with their log files: what a merged (snapshot) read of a partition consists of. Pure but for completion times.
//!
//! Up to table version 6 a log file's name carries the base instant of its slice. From 8 on it carries the delta commit that
//! wrote it, and belongs to the newest slice that began before that commit *completed*: a delta commit that started before
//! a compaction was requested and ended after it is not part of what was compacted.
//! A group under compaction is read as it was before, plus the logs written since. Format: docs/format.md, "File slices".

use super::{ListedFile, ViewContext};
use crate::error::Result;
use crate::format::file_name::{BaseName, FileName, LogName};
use crate::format::instant::InstantTime;
use std::collections::BTreeMap;

/// The newest slice of one file group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedSlice<'a> {
    /// The file group.
    pub file_id: &'a str,
    /// The instant that the slice starts at.
    pub base_instant: InstantTime,
    /// The base file's stored name; `None` in a group of logs only.
    pub base_file: Option<&'a str>,
    /// The log files' names, in the order in which they are read.
    pub log_files: Vec<&'a str>,
}

/// Answers when an instant completed.
pub type CompletionTimes<'c> = dyn FnMut(InstantTime) -> Result<Option<InstantTime>> + 'c;

/// The base files and the logs of one group, parsed and as stored.
#[derive(Default)]
struct GroupFiles<'a> {
    bases: Vec<(BaseName<'a>, &'a str)>,
    logs: Vec<(LogName<'a>, &'a str)>,
}

#[derive(Default)]
struct Slice<'a> {
    base: Option<&'a str>,
    /// Base files of the same instant: attempts of one write.
    attempts: Vec<&'a str>,
    logs: Vec<(LogName<'a>, &'a str)>,
}

/// The newest visible slice of each group that is not replaced, by file id. `context` must have been loaded
/// [with plans](ViewContext::with_plans). `completed` is asked for delta commits of table version 8 and above only:
/// [`crate::timeline::Timeline::completion_time`].
pub fn merged_slices<'a>(
    context: &ViewContext,
    partition: &str,
    files: &'a [ListedFile],
    completed: &mut CompletionTimes<'_>,
) -> Result<Vec<MergedSlice<'a>>> {
    let mut slices = Vec::new();
    for (file_id, group) in groups(context, files, false) {
        if context.replaced_at(partition, file_id).is_none() {
            slices.extend(newest(context, partition, file_id, group, completed)?);
        }
    }
    Ok(slices)
}

/// The base and log files of a partition by file group; change logs only where they are asked for.
fn groups<'a>(context: &ViewContext, files: &'a [ListedFile], with_cdc: bool) -> BTreeMap<&'a str, GroupFiles<'a>> {
    let mut groups: BTreeMap<&str, GroupFiles<'a>> = BTreeMap::new();
    let extension = context.config().base_format().extension();
    for file in files {
        match FileName::parse(&file.name) {
            FileName::Base(base) if base.extension == extension => {
                groups.entry(base.file_id).or_default().bases.push((base, &file.name));
            }
            FileName::Log(log) if with_cdc || !log.cdc => {
                groups.entry(log.file_id).or_default().logs.push((log, &file.name));
            }
            _ => {}
        }
    }
    groups
}

fn newest<'a>(
    context: &ViewContext,
    partition: &str,
    file_id: &'a str,
    group: GroupFiles<'a>,
    completed: &mut CompletionTimes<'_>,
) -> Result<Option<MergedSlice<'a>>> {
    let compaction = context.compaction_of(partition, file_id);
    let mut slices = all_slices(context, group, compaction, completed)?;
    let by_completion = context.config().version().slices_by_completion_time();
    let visible = |time: InstantTime| {
        context.is_visible(time) || (Some(time) == compaction && context.as_of().is_some_and(|as_of| time <= as_of))
    };
    let Some((&key, _)) = slices.iter().rev().find(|(key, _)| visible(**key)) else { return Ok(None) };
    let Some(mut slice) = slices.remove(&key) else { return Ok(None) };
    let mut base_instant = key;
    if Some(key) == compaction {
        // What the compaction has written so far does not count.
        slice.base = None;
        if let Some((&before, _)) = slices.range(..key).rev().find(|(key, _)| visible(**key))
            && let Some(earlier) = slices.remove(&before)
        {
            base_instant = before;
            slice.base = earlier.base;
            slice.logs.splice(0..0, earlier.logs);
        }
    }
    let committed = |log: &LogName<'_>| !by_completion || context.is_visible(log.instant);
    let log_files: Vec<&str> = slice.logs.iter().filter(|(log, _)| committed(log)).map(|(_, name)| *name).collect();
    let empty = slice.base.is_none() && log_files.is_empty();
    Ok((!empty).then_some(MergedSlice { file_id, base_instant, base_file: slice.base, log_files }))
}

/// Every slice of a group by its base instant, visible or not; a pending compaction begins one.
fn all_slices<'a>(
    context: &ViewContext,
    group: GroupFiles<'a>,
    compaction: Option<InstantTime>,
    completed: &mut CompletionTimes<'_>,
) -> Result<BTreeMap<InstantTime, Slice<'a>>> {
    let GroupFiles { bases, mut logs } = group;
    let mut slices: BTreeMap<InstantTime, Slice<'a>> = BTreeMap::new();
    for (base, name) in bases {
        let slice = slices.entry(base.instant).or_default();
        slice.attempts.extend(slice.base.replace(name));
    }
    if let Some(at) = compaction {
        // Before the logs: those that completed after the request belong to it.
        slices.entry(at).or_default();
    }
    logs.sort_by(|a, b| a.0.order(&b.0));
    let by_completion = context.config().version().slices_by_completion_time();
    for (log, name) in logs {
        let key = if by_completion { slice_of(&slices, log.instant, completed)? } else { log.instant };
        slices.entry(key).or_default().logs.push((log, name));
    }
    Ok(slices)
}

/// One file group with all its committed slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHistory<'a> {
    /// The file group.
    pub file_id: &'a str,
    /// The replace commit that took its place.
    pub replaced_at: Option<InstantTime>,
    /// The slices, newest first. That of a pending compaction is one of them, with its logs.
    pub slices: Vec<PastSlice<'a>>,
}

/// One slice of a [`GroupHistory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastSlice<'a> {
    /// The instant that it starts at.
    pub base_instant: InstantTime,
    /// True if it has a base file that counts.
    pub has_base: bool,
    /// All its files by name: base file, attempts at it that were not committed, logs and change logs.
    pub files: Vec<&'a str>,
}

/// All groups of a partition with all committed slices, replaced groups too, by file id: what a cleaner goes by. Files of other
/// engines are not among them. `context` must have been loaded [with plans](ViewContext::with_plans).
pub fn group_histories<'a>(
    context: &ViewContext,
    partition: &str,
    files: &'a [ListedFile],
    completed: &mut CompletionTimes<'_>,
) -> Result<Vec<GroupHistory<'a>>> {
    let mut histories = Vec::new();
    for (file_id, group) in groups(context, files, true) {
        let compaction = context.compaction_of(partition, file_id);
        let slices = all_slices(context, group, compaction, completed)?;
        let counts = |time: InstantTime| context.is_visible(time) || Some(time) == compaction;
        let past = slices.into_iter().rev().filter(|(at, _)| counts(*at)).map(|(at, slice)| {
            let logs = slice.logs.iter().map(|(_, name)| *name);
            PastSlice {
                base_instant: at,
                has_base: slice.base.is_some() && Some(at) != compaction,
                files: slice.base.into_iter().chain(slice.attempts).chain(logs).collect(),
            }
        });
        let slices: Vec<PastSlice<'a>> = past.collect();
        if !slices.is_empty() {
            histories.push(GroupHistory { file_id, replaced_at: context.replaced_at(partition, file_id), slices });
        }
    }
    Ok(histories)
}

/// The slice that a log file of table version 8 and above belongs to.
fn slice_of(
    slices: &BTreeMap<InstantTime, Slice<'_>>,
    written: InstantTime,
    completed: &mut CompletionTimes<'_>,
) -> Result<InstantTime> {
    let Some((&newest, _)) = slices.last_key_value() else { return Ok(written) };
    // Still pending, or never completed: the newest slice.
    let Some(mut at) = completed(written)? else { return Ok(newest) };
    if at.as_str().len() != newest.as_str().len() {
        // Times of different forms cannot be compared: Hudi then takes the requested time.
        at = written;
    }
    Ok(slices.range(..=at).next_back().map_or(written, |(key, _)| *key))
}
