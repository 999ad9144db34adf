//! Names of data files: base files, log files, and files that other engines wrote.
//!
//! [`FileName::parse`] looks at a name alone and says what it can be; which base format counts is the table's matter. The order
//! of the tests matters: the mark of an externally written file comes before the native pattern, because such a name may hold
//! any number of underscores, and a native log (table version 10) comes before a base file, because it ends like one.
//! No regular expressions and no allocation: a large table has a million names.
//! Format: docs/format.md, "Data file names".

use super::instant::InstantTime;
use super::partition_path::unescape;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// How the names of partition metadata files begin.
pub const PARTITION_METADATA: &str = ".hoodie_partition_metadata";
/// How the name of an externally written file ends.
const MARK: &str = "_hudiext";
/// What stands before the folder of an externally written file: `_fg=`, escaped.
const PREFIX_MARK: &str = "_fg%3D";

/// What a name in a partition can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName<'a> {
    /// `<fileId>_<writeToken>_<instant><extension>`.
    Base(BaseName<'a>),
    /// A name that another engine gave, with a mark.
    External(ExternalName<'a>),
    /// `.<fileId>_<instant>.log.<version>_<writeToken>[.cdc]`.
    Log(LogName<'a>),
    /// A log file of table version 10, which ends like a base file.
    NativeLog,
    /// The partition's own metadata.
    PartitionMetadata,
    /// A mark with a name that cannot be right; says why.
    BadMark(&'static str),
    /// A leading dot and nothing of Hudi's: check sums, half-copied files.
    Hidden,
    /// Nothing of Hudi's.
    Foreign,
}

/// The parts of a native base file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseName<'a> {
    /// The file group.
    pub file_id: &'a str,
    /// Tells attempts to write the same file apart.
    pub write_token: &'a str,
    /// The instant that wrote it.
    pub instant: InstantTime,
    /// From the first dot after the instant; empty without one.
    pub extension: &'a str,
}

/// The parts of an externally written file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalName<'a> {
    /// The name that its writer gave it.
    pub name: &'a str,
    /// The folder below the partition that it lies in.
    pub prefix: Option<Cow<'a, str>>,
    /// The instant that registered it.
    pub instant: InstantTime,
}

/// The parts of an inline log file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogName<'a> {
    /// The file group.
    pub file_id: &'a str,
    /// Up to table version 6 the base instant of the slice; from 8 on the delta commit that wrote it.
    pub instant: InstantTime,
    /// Counts the files of one instant.
    pub version: u32,
    /// Tells attempts to write the same file apart; empty in very old names.
    pub write_token: &'a str,
    /// Holds change images, not records.
    pub cdc: bool,
}

/// Tells attempts to write the same file apart: Spark's partition, stage and attempt of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteToken {
    /// The part of the work.
    pub partition: u32,
    /// The step of the work.
    pub stage: u32,
    /// The attempt at it.
    pub attempt: u32,
}

impl WriteToken {
    /// What Hudi writes where it knows of no task, as in the log files of rollbacks.
    pub const UNKNOWN: WriteToken = WriteToken { partition: 1, stage: 0, attempt: 1 };
}

impl fmt::Display for WriteToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.partition, self.stage, self.attempt)
    }
}

/// The name.
impl fmt::Display for BaseName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}{}", self.file_id, self.write_token, self.instant, self.extension)
    }
}

/// The name.
impl fmt::Display for LogName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}_{}.log.{}", self.file_id, self.instant, self.version)?;
        if !self.write_token.is_empty() {
            write!(f, "_{}", self.write_token)?;
        }
        f.write_str(if self.cdc { ".cdc" } else { "" })
    }
}

/// The name of a base file; `extension` begins with a dot.
pub fn base_file_name(file_id: &str, token: WriteToken, instant: InstantTime, extension: &str) -> String {
    BaseName { file_id, write_token: &token.to_string(), instant, extension }.to_string()
}

/// The name of a log file; `instant` is the slice's base instant up to table version 6, the delta commit's own from 8 on.
pub fn log_file_name(file_id: &str, instant: InstantTime, version: u32, token: WriteToken) -> String {
    LogName { file_id, instant, version, write_token: &token.to_string(), cdc: false }.to_string()
}

impl<'a> FileName<'a> {
    /// What a file of that name (without folders) can be.
    pub fn parse(name: &'a str) -> FileName<'a> {
        if let Some(head) = name.strip_suffix(MARK) {
            return match ExternalName::parse(head) {
                Ok(external) => FileName::External(external),
                Err(why) => FileName::BadMark(why),
            };
        }
        if name.starts_with('.') {
            return match LogName::parse(name) {
                Some(log) => FileName::Log(log),
                None if name.starts_with(PARTITION_METADATA) => FileName::PartitionMetadata,
                None => FileName::Hidden,
            };
        }
        match BaseName::parse(name) {
            // A native log has one part more than a base file, so it never parses as one.
            Some(base) => FileName::Base(base),
            None if is_native_log(name) => FileName::NativeLog,
            None => FileName::Foreign,
        }
    }
}

impl<'a> BaseName<'a> {
    /// Splits at the first two underscores and the first dot after them. Hudi itself also accepts names with a single
    /// underscore, which no Hudi writer makes and many other tools do (`part-00000_x.parquet`): those are not base files here.
    pub fn parse(name: &'a str) -> Option<BaseName<'a>> {
        let (file_id, rest) = name.split_once('_')?;
        let (write_token, rest) = rest.split_once('_')?;
        let (instant, extension) = rest.split_at_checked(rest.find('.').unwrap_or(rest.len()))?;
        let instant = InstantTime::parse(instant)?;
        (!file_id.is_empty()).then_some(BaseName { file_id, write_token, instant, extension })
    }
}

impl<'a> ExternalName<'a> {
    /// `head` is the stored name without its mark.
    fn parse(head: &'a str) -> Result<ExternalName<'a>, &'static str> {
        // The first prefix mark counts, as in Hudi: an original name that holds the mark itself is misread by all readers.
        let (head, prefix) = match head.split_once(PREFIX_MARK) {
            Some((head, prefix)) => (head, Some(unescape(prefix))),
            None => (head, None),
        };
        let (name, instant) = head.rsplit_once('_').ok_or("it has no instant before its mark")?;
        let instant = InstantTime::parse(instant).ok_or("what stands before its mark is not an instant")?;
        if !is_component(name) {
            return Err("its original name cannot be a file's name");
        }
        if prefix.as_deref().is_some_and(|p| !p.split('/').all(is_component)) {
            return Err("its folder leads out of the partition or is no folder");
        }
        Ok(ExternalName { name, prefix, instant })
    }

    /// The file group: the path of the file in its partition.
    pub fn file_id(&self) -> Cow<'a, str> {
        match &self.prefix {
            Some(prefix) => Cow::Owned(format!("{prefix}/{}", self.name)),
            None => Cow::Borrowed(self.name),
        }
    }
}

impl<'a> LogName<'a> {
    /// Accepts the names of all releases: file ids with dots or underscores of 0.x, names without a write token.
    pub fn parse(name: &'a str) -> Option<LogName<'a>> {
        let (head, tail) = name.strip_prefix('.')?.rsplit_once(".log.")?;
        let (file_id, instant) = head.rsplit_once('_')?;
        let instant = InstantTime::parse(instant)?;
        let (tail, cdc) = match tail.strip_suffix(".cdc") {
            Some(tail) => (tail, true),
            None => (tail, false),
        };
        let (version, write_token) = match tail.split_once('_') {
            Some((version, token)) if is_write_token(token) => (version, token),
            Some(_) => return None,
            // Change logs came long after write tokens.
            None if cdc => return None,
            None => (tail, ""),
        };
        if file_id.is_empty() || file_id.starts_with('.') || !is_number(version) {
            return None;
        }
        Some(LogName { file_id, instant, version: version.parse().ok()?, write_token, cdc })
    }

    /// The order in which the logs of one slice are read: by instant, version, write token, then change logs last.
    pub fn order(&self, other: &LogName<'_>) -> Ordering {
        (self.instant, self.version, self.write_token, self.cdc).cmp(&(
            other.instant,
            other.version,
            other.write_token,
            other.cdc,
        ))
    }
}

/// `<fileId>_<writeToken>_<instant>_<version>.<log|deletes|cdc>.<format>`.
fn is_native_log(name: &str) -> bool {
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let Some((kind, format)) = extension.split_once('.') else { return false };
    let mut parts = stem.split('_');
    let (id, token, instant, version) = (parts.next(), parts.next(), parts.next(), parts.next());
    parts.next().is_none()
        && id.is_some_and(|p| !p.is_empty())
        && token.is_some_and(is_write_token)
        && instant.is_some_and(|p| !p.is_empty())
        && version.is_some_and(is_number)
        && matches!(kind, "log" | "deletes" | "cdc")
        && !format.is_empty()
        && !format.contains('.')
}

fn is_write_token(text: &str) -> bool {
    let mut parts = text.split('-');
    let three = [parts.next(), parts.next(), parts.next()];
    parts.next().is_none() && three.iter().all(|p| p.is_some_and(is_number))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_component(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\0'])
}

#[cfg(test)]
mod tests;
