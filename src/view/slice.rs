//! The read-optimized view of one partition: which of its files stand for its file groups. Pure.
//!
//! Of each file group that no replace commit hides, the base file of the newest visible instant is listed; the other visible
//! versions, those of replaced groups too, can still be opened by name, because a scan may have listed them a moment ago.
//!
//! What a name that is not Hudi's means depends on who reports it. On record (in the metadata table) it is an error: something
//! was written that this build does not understand, and leaving it out would lose rows. In a folder it is somebody's own file:
//! Hudi's readers ignore it by its extension, or fail the whole partition over it if it ends like a base file; here it is left
//! out with a warning, because no committed file of Hudi has such a name. The exception is a table into which files of another
//! engine were registered: those names are known to the metadata table only, so a listing of its folders is refused.
//! Format: docs/format.md, "File-system view".

use super::{ListedFile, NewFile, PartitionView, SIZE_UNKNOWN, ViewContext};
use crate::error::{Error, Result};
use crate::format::file_name::FileName;
use crate::format::instant::InstantTime;
use crate::format::properties::BaseFormat;
use crate::storage::path::check_component;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Names in one message.
const NAMED_MAX: usize = 5;
/// Bytes of names that one view can hold: it addresses them with 32 bits.
const NAMES_LEN_MAX: usize = u32::MAX as usize;

/// What slicing finds in a partition, before sizes are filled in.
#[derive(Debug, Default)]
pub struct Sliced<'a> {
    /// Every visible version.
    pub versions: Vec<Version<'a>>,
    /// Groups with committed logs and nothing listed.
    pub log_only_groups: u32,
    /// There are base files that the view does not see: of later commits, of running writes, or of those that have failed.
    pub unseen_bases: bool,
    /// What was left out and should be known.
    pub warnings: Vec<String>,
}

/// A visible version of a file group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The name under which it is served.
    pub name: Cow<'a, str>,
    /// The file group.
    pub file_id: Cow<'a, str>,
    /// The instant that wrote it.
    pub instant: InstantTime,
    /// Bytes, or [`SIZE_UNKNOWN`].
    pub size: u64,
    /// In the read-optimized view.
    pub listed: bool,
    /// Of another engine.
    pub external: bool,
}

/// Two or more base files of one group and instant: attempts of the same write, of which one was committed.
#[derive(Debug)]
pub struct Attempts<'n> {
    /// The file group.
    pub file_id: &'n str,
    /// Their instant.
    pub instant: InstantTime,
    /// Their stored names.
    pub names: Vec<&'n str>,
}

/// Says which of several attempts was committed; `None` if it cannot be known.
pub type Choose<'c> = dyn FnMut(&Attempts<'_>) -> Result<Option<usize>> + 'c;

/// One base file.
struct Base<'a> {
    file_id: Cow<'a, str>,
    instant: InstantTime,
    stored: &'a str,
    name: Cow<'a, str>,
    size: u64,
    external: bool,
}

/// Slices one partition. `is_record` is the lister's ([`super::Lister::is_record`]).
pub fn slice<'a>(
    context: &ViewContext,
    partition: &str,
    files: &'a [ListedFile],
    is_record: bool,
    choose: &mut Choose<'_>,
) -> Result<Sliced<'a>> {
    let mut sliced = Sliced::default();
    let (mut bases, mut logs) = sort_out(context, partition, files, is_record, &mut sliced)?;
    bases.sort_unstable_by(Base::order);
    logs.sort_unstable();
    let mut listed_groups: Vec<Cow<'a, str>> = Vec::new();
    let mut rest = bases.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut group = vec![first];
        while let Some(next) = rest.next_if(|b| b.same_group(group.first())) {
            group.push(next);
        }
        if let Some(file_id) = slice_group(context, partition, group, choose, &mut sliced)? {
            listed_groups.push(file_id);
        }
    }
    sliced.log_only_groups = count_log_only(context, partition, &logs, &listed_groups);
    name_apart(&mut sliced.versions);
    Ok(sliced)
}

impl Base<'_> {
    /// By group, newest first.
    fn order(&self, other: &Self) -> Ordering {
        (self.external, &self.file_id)
            .cmp(&(other.external, &other.file_id))
            .then_with(|| other.instant.cmp(&self.instant))
            .then_with(|| self.stored.cmp(other.stored))
    }

    fn same_group(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|o| o.external == self.external && o.file_id == self.file_id)
    }
}

/// Sorts names into base files and logs that the view's instant can see, and refuses what must not be passed over.
#[expect(clippy::type_complexity, reason = "two lists that are taken apart at once")]
fn sort_out<'a>(
    context: &ViewContext,
    partition: &str,
    files: &'a [ListedFile],
    is_record: bool,
    sliced: &mut Sliced<'_>,
) -> Result<(Vec<Base<'a>>, Vec<(&'a str, InstantTime)>)> {
    let formats = Formats::of(context);
    let mut bases = Vec::with_capacity(files.len());
    let mut logs = Vec::new();
    let mut odd: Vec<(&str, &str)> = Vec::new();
    let mut foreign: Vec<&str> = Vec::new();
    let mut other_formats: Vec<&str> = Vec::new();
    let mut names_len = 0usize;
    for file in files {
        let name = file.name.as_str();
        if check_component(name).is_err() {
            odd.push((name, "it is no file's name"));
            continue;
        }
        let size = file.size.unwrap_or(SIZE_UNKNOWN);
        match FileName::parse(name) {
            FileName::Base(base) if formats.is_base(base.extension) => {
                names_len += name.len();
                let visible = context.is_visible(base.instant);
                sliced.unseen_bases |= !visible;
                if visible {
                    let (file_id, instant) = (Cow::Borrowed(base.file_id), base.instant);
                    bases.push(Base {
                        file_id,
                        instant,
                        stored: name,
                        name: Cow::Borrowed(name),
                        size,
                        external: false,
                    });
                }
            }
            FileName::External(external) => {
                names_len += 3 * name.len();
                let visible = context.is_visible(external.instant);
                sliced.unseen_bases |= !visible;
                if visible {
                    let (file_id, instant) = (external.file_id(), external.instant);
                    let served = served_name(external.name, external.prefix.as_deref());
                    bases.push(Base { file_id, instant, stored: name, name: served, size, external: true });
                }
            }
            FileName::Log(log) => logs.extend((!log.cdc).then_some((log.file_id, log.instant))),
            FileName::NativeLog => return Err(native_log(partition, name)),
            FileName::PartitionMetadata => {}
            FileName::BadMark(why) => odd.push((name, why)),
            FileName::Base(base) if Formats::is_any(base.extension) => other_formats.push(name),
            _ if is_record => odd.push((name, "it is neither Hudi's nor marked as another engine's")),
            FileName::Foreign if formats.ends_like_base(name) => foreign.push(name),
            _ => {}
        }
    }
    if !odd.is_empty() {
        return Err(cannot_understand(partition, &odd));
    }
    if names_len > NAMES_LEN_MAX {
        return Err(Error::unsupported(format!(
            "partition {partition:?} has more than {NAMES_LEN_MAX} bytes of names"
        )));
    }
    if !is_record && context.registers_external() {
        return Err(external_without_record(partition));
    }
    warn(&mut sliced.warnings, partition, &foreign, "no name that Hudi gives: left out");
    warn(&mut sliced.warnings, partition, &other_formats, "a base file of another format than the table's: left out");
    Ok((bases, logs))
}

/// Chooses what a group lists, and adds its visible versions. The id of a group that lists a file is returned.
fn slice_group<'a>(
    context: &ViewContext,
    partition: &str,
    group: Vec<Base<'a>>,
    choose: &mut Choose<'_>,
    sliced: &mut Sliced<'a>,
) -> Result<Option<Cow<'a, str>>> {
    let group = one_an_instant(partition, group, choose, &mut sliced.warnings)?;
    let Some(newest) = group.first() else { return Ok(None) };
    let replaced = context.replaced_at(partition, &newest.file_id);
    let listed = match replaced {
        None => true,
        // A name of another engine may come back after it was replaced; one of Hudi's is never used again. Comparing times
        // for those would bring back groups that were written to between the request and the end of a clustering.
        Some(at) => newest.external && at <= newest.instant,
    };
    let file_id = listed.then(|| newest.file_id.clone());
    let external = newest.external;
    for (index, base) in group.into_iter().enumerate() {
        // The versions of an external group are one file; the newest stands for all.
        if index == 0 || !external {
            let Base { file_id, instant, name, size, external, .. } = base;
            sliced.versions.push(Version { name, file_id, instant, size, listed: listed && index == 0, external });
        }
    }
    Ok(file_id)
}

/// Leaves one base file an instant: the committed one of several attempts.
fn one_an_instant<'a>(
    partition: &str,
    mut group: Vec<Base<'a>>,
    choose: &mut Choose<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Base<'a>>> {
    group.dedup_by(|a, b| a.stored == b.stored);
    if !group.windows(2).any(|w| matches!(w, [a, b] if a.instant == b.instant)) {
        return Ok(group);
    }
    let mut kept: Vec<Base<'a>> = Vec::with_capacity(group.len());
    let mut rest = group.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut attempts = vec![first];
        while let Some(next) = rest.next_if(|b| attempts.first().is_some_and(|f| f.instant == b.instant)) {
            attempts.push(next);
        }
        kept.extend(committed_attempt(partition, attempts, choose, warnings)?);
    }
    Ok(kept)
}

fn committed_attempt<'a>(
    partition: &str,
    mut attempts: Vec<Base<'a>>,
    choose: &mut Choose<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<Base<'a>>> {
    let chosen = match attempts.first() {
        Some(first) if attempts.len() > 1 => {
            let names = attempts.iter().map(|a| a.stored).collect();
            choose(&Attempts { file_id: &first.file_id, instant: first.instant, names })?
        }
        _ => Some(0),
    };
    let index = chosen.filter(|i| *i < attempts.len()).unwrap_or_else(|| {
        let names: Vec<&str> = attempts.iter().map(|a| a.stored).collect();
        warn(
            warnings,
            partition,
            &names,
            "several attempts of one write, and its commit cannot tell: the last is taken",
        );
        attempts.len() - 1
    });
    Ok((index < attempts.len()).then(|| attempts.swap_remove(index)))
}

/// Groups whose visible logs have no base file in the view beside them.
fn count_log_only(
    context: &ViewContext,
    partition: &str,
    logs: &[(&str, InstantTime)],
    listed: &[Cow<'_, str>],
) -> u32 {
    let listed: HashSet<&str> = listed.iter().map(|id| &**id).collect();
    let mut count = 0;
    let mut last = None;
    for (file_id, instant) in logs {
        if last != Some(*file_id) && context.is_visible(*instant) {
            last = Some(*file_id);
            count += u32::from(!listed.contains(file_id) && context.replaced_at(partition, file_id).is_none());
        }
    }
    count
}

/// Engines do not look into folders of a partition, so a file in one is served beside the others.
fn served_name<'a>(name: &'a str, prefix: Option<&str>) -> Cow<'a, str> {
    match prefix {
        None => Cow::Borrowed(name),
        Some(prefix) => Cow::Owned(format!("{}__{name}", prefix.replace('/', "__"))),
    }
}

/// Tells served names apart that flattening made equal: every one of them but a file's real name gets a suffix made from its
/// path, so that a name does not change when its rival goes.
fn name_apart(versions: &mut [Version<'_>]) {
    let flattened = |v: &Version<'_>| v.external && v.name != v.file_id;
    if !versions.iter().any(flattened) {
        return;
    }
    let mut seen = HashSet::new();
    let twice: HashSet<String> =
        versions.iter().map(|v| v.name.to_string()).filter(|name| !seen.insert(name.clone())).collect();
    for version in versions.iter_mut().filter(|v| flattened(v)) {
        if twice.contains(&*version.name) || check_component(&version.name).is_err() {
            let tag = crc32fast::hash(version.file_id.as_bytes());
            let (stem, extension) = version.name.rsplit_once('.').unwrap_or((&version.name, ""));
            let mut end = stem.len().min(200);
            while !stem.is_char_boundary(end) {
                end -= 1;
            }
            let stem = stem.get(..end).unwrap_or_default();
            let dot = if extension.is_empty() { "" } else { "." };
            version.name = Cow::Owned(format!("{stem}-{tag:08x}{dot}{extension}"));
        }
    }
}

/// Which extensions are base files of the table.
struct Formats {
    own: BaseFormat,
    several: bool,
}

impl Formats {
    const ALL: [BaseFormat; 4] = [BaseFormat::Parquet, BaseFormat::Orc, BaseFormat::HFile, BaseFormat::Lance];

    fn of(context: &ViewContext) -> Formats {
        Formats { own: context.config().base_format(), several: context.config().multiple_base_formats() }
    }

    fn is_base(&self, extension: &str) -> bool {
        extension == self.own.extension() || (self.several && Self::is_any(extension))
    }

    fn is_any(extension: &str) -> bool {
        Self::ALL.iter().any(|f| f.extension() == extension)
    }

    fn ends_like_base(&self, name: &str) -> bool {
        name.ends_with(self.own.extension())
            || (self.several && Self::ALL.iter().any(|f| name.ends_with(f.extension())))
    }
}

fn warn(warnings: &mut Vec<String>, partition: &str, names: &[&str], what: &str) {
    if !names.is_empty() {
        warnings.push(format!("partition {partition:?}: {}: {what}", few(names)));
    }
}

fn few(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMED_MAX).map(|n| format!("{n:?}")).collect();
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn cannot_understand(partition: &str, odd: &[(&str, &str)]) -> Error {
    let names: Vec<&str> = odd.iter().map(|(name, _)| *name).collect();
    let why = odd.first().map_or("", |(_, why)| why);
    Error::corrupt(format!("partition {partition:?}: cannot tell what {} is: {why}", few(&names))).with_hint(
        "a newer or another writer registered it; leaving it out could lose rows, so the partition is not shown",
    )
}

fn native_log(partition: &str, name: &str) -> Error {
    Error::unsupported(format!("partition {partition:?}: {name:?} is a log file of table version 10"))
        .with_hint("this build reads table versions 0 to 6, 8 and 9")
}

fn external_without_record(partition: &str) -> Error {
    Error::unsupported(format!(
        "partition {partition:?}: files of another engine are registered in this table, and only its metadata table lists them"
    ))
    .with_hint("repair or rebuild the metadata table; a listing of the folder cannot tell registered files from others")
}

impl Sliced<'_> {
    /// The finished view.
    pub fn into_view(self) -> PartitionView {
        let mut versions: Vec<&Version<'_>> = self.versions.iter().collect();
        // Of two with one name the listed one counts.
        versions.sort_by_key(|v| !v.listed);
        let files = versions.iter().map(|v| NewFile {
            name: &v.name,
            file_id: &v.file_id,
            instant: v.instant,
            size: v.size,
            listed: v.listed,
            external: v.external,
        });
        PartitionView::build(files, self.log_only_groups)
    }
}
