//! What instants' files hold: read when asked for, kept, and shared by later loads of the same timeline.
//!
//! The lock is held for looking up and putting in only, never while storage is read.

use super::Timeline;
use crate::error::{Error, ErrorKind, Result};
use crate::format::commit::{CommitMetadata, ReplacedGroups};
use crate::format::instant::{Instant, InstantTime, State};
use crate::format::plan::{Cleaned, CompactionPlan, RequestedReplace};
use crate::storage::{Storage, TablePath};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest instant file accepted, bytes. A commit of a million files takes about 600 MB of JSON.
const LEN_MAX: u64 = 1 << 30;
/// Write stats kept in all, over all commits.
const STATS_KEPT_MAX: usize = 100_000;
/// Lines of warnings kept.
const WARNINGS_MAX: usize = 100;

/// What a view needs of a completed replace commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replacement {
    /// The file groups replaced.
    pub replaced: Vec<ReplacedGroups>,
    /// It registered files that another engine wrote, which no listing of storage can tell.
    pub registers_external: bool,
}

/// What has been read so far.
#[derive(Default)]
pub(super) struct Contents {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    replacements: HashMap<InstantTime, Arc<Replacement>>,
    compactions: HashMap<InstantTime, Arc<CompactionPlan>>,
    requested: HashMap<InstantTime, Arc<RequestedReplace>>,
    cleaned: HashMap<InstantTime, Arc<Cleaned>>,
    clean_plans: HashMap<InstantTime, Arc<Cleaned>>,
    commits: HashMap<InstantTime, Arc<CommitMetadata>>,
    stats: usize,
    history: Option<Arc<super::history::History>>,
    warnings: Vec<String>,
}

impl Contents {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // The maps are whole at every moment, so a panic elsewhere does not spoil them.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.kept().warnings.clone()
    }

    pub(super) fn warn(&self, line: String) {
        let mut kept = self.kept();
        if kept.warnings.len() < WARNINGS_MAX && !kept.warnings.contains(&line) {
            kept.warnings.push(line);
        }
    }

    pub(super) fn history(&self) -> Option<Arc<super::history::History>> {
        self.kept().history.clone()
    }

    pub(super) fn keep_history(&self, history: &Arc<super::history::History>) {
        self.kept().history = Some(history.clone());
    }
}

impl Timeline {
    /// The path of the file that holds an instant in its state.
    pub fn file_of(&self, instant: &Instant) -> Result<TablePath> {
        self.folder().join(&instant.file_name())
    }

    /// The bytes of an instant's file.
    pub fn read(&self, storage: &dyn Storage, instant: &Instant) -> Result<Bytes> {
        let path = self.file_of(instant)?;
        storage.read(&path, LEN_MAX).map_err(|e| e.context(format!("{instant}")))
    }

    /// What a completed write wrote. An empty file is metadata without a word, with a warning; a damaged one is `Corrupt`.
    pub fn commit_metadata(&self, storage: &dyn Storage, instant: &Instant) -> Result<Arc<CommitMetadata>> {
        if let Some(known) = self.0.contents.kept().commits.get(&instant.requested) {
            return Ok(known.clone());
        }
        let bytes = self.read(storage, instant)?;
        let metadata = CommitMetadata::parse(&bytes).map_err(|e| e.context(self.describe(instant)));
        let metadata = Arc::new(metadata.inspect_err(|e| self.warn(e.to_string()))?);
        if metadata.empty {
            self.warn(format!("{} is empty: a write was cut off there", self.describe(instant)));
        }
        let mut kept = self.0.contents.kept();
        let stats = metadata.written.iter().map(|p| p.stats.len()).sum::<usize>();
        if kept.stats + stats > STATS_KEPT_MAX {
            kept.commits.clear();
            kept.stats = 0;
        }
        if stats <= STATS_KEPT_MAX {
            kept.stats += stats;
            kept.commits.insert(instant.requested, metadata.clone());
        }
        Ok(metadata)
    }

    /// What the given completed replace commits replaced, in order. `None` where a file is gone: it was archived meanwhile, which
    /// happens only after the replaced files have been cleaned. Any other failure is an error: without it, replaced file groups
    /// would come back as duplicates.
    pub fn replacements(&self, storage: &dyn Storage, instants: &[&Instant]) -> Result<Vec<Option<Arc<Replacement>>>> {
        let parse = |instant: &Instant, bytes: &[u8]| {
            let metadata = CommitMetadata::parse(bytes)?;
            if metadata.empty {
                return Err(Error::corrupt("the file is empty").with_hint(format!(
                    "the file groups that it replaced are unknown; restore {}, or roll the instant back with Hudi",
                    instant.file_name()
                )));
            }
            let mut stats = metadata.written.iter().flat_map(|p| &p.stats);
            let registers_external = stats.any(|s| s.path.as_deref().is_some_and(|p| p.ends_with("_hudiext")));
            Ok(Replacement { replaced: metadata.replaced, registers_external })
        };
        self.read_parsed(storage, instants, |kept| &mut kept.replacements, parse)
    }

    /// The plans of pending compactions and log compactions, in order; `None` where a file is gone because the instant moved on.
    pub fn compaction_plans(
        &self,
        storage: &dyn Storage,
        instants: &[&Instant],
    ) -> Result<Vec<Option<Arc<CompactionPlan>>>> {
        let requested: Vec<Instant> = instants.iter().map(|i| Timeline::requested_of(i)).collect();
        let requested: Vec<&Instant> = requested.iter().collect();
        self.read_parsed(storage, &requested, |kept| &mut kept.compactions, |_, bytes| CompactionPlan::parse(bytes))
    }

    /// What pending replace commits and clusterings were requested to do, in order; `None` where a file is gone.
    pub fn requested_replaces(
        &self,
        storage: &dyn Storage,
        instants: &[&Instant],
    ) -> Result<Vec<Option<Arc<RequestedReplace>>>> {
        let requested: Vec<Instant> = instants.iter().map(|i| Timeline::requested_of(i)).collect();
        let requested: Vec<&Instant> = requested.iter().collect();
        self.read_parsed(storage, &requested, |kept| &mut kept.requested, |_, bytes| RequestedReplace::parse(bytes))
    }

    /// What cleans removed, or if they are pending, are about to remove; in order, `None` where a file is gone.
    pub fn cleaned(&self, storage: &dyn Storage, cleans: &[&Instant]) -> Result<Vec<Option<Arc<Cleaned>>>> {
        let mut found = Vec::with_capacity(cleans.len());
        // Two encodings and two caches, but seldom more than a handful of cleans.
        for clean in cleans {
            let one = match clean.state {
                State::Completed => self.read_parsed(storage, &[*clean], |k| &mut k.cleaned, |_, b| Cleaned::parse(b)),
                _ => {
                    let requested = Timeline::requested_of(clean);
                    self.read_parsed(storage, &[&requested], |k| &mut k.clean_plans, |_, b| Cleaned::parse(b))
                }
            };
            found.extend(one?);
        }
        Ok(found)
    }

    fn read_parsed<T>(
        &self,
        storage: &dyn Storage,
        instants: &[&Instant],
        map: impl Fn(&mut Kept) -> &mut HashMap<InstantTime, Arc<T>>,
        parse: impl Fn(&Instant, &[u8]) -> Result<T>,
    ) -> Result<Vec<Option<Arc<T>>>> {
        let mut found: Vec<Option<Arc<T>>> = {
            let mut kept = self.0.contents.kept();
            let known = map(&mut kept);
            instants.iter().map(|i| known.get(&i.requested).cloned()).collect()
        };
        let missing: Vec<(&mut Option<Arc<T>>, &Instant)> =
            found.iter_mut().zip(instants.iter().copied()).filter(|(f, _)| f.is_none()).collect();
        let paths = missing.iter().map(|(_, i)| self.file_of(i)).collect::<Result<Vec<_>>>()?;
        let mut read = storage.read_many(&paths, LEN_MAX).into_iter();
        for (slot, instant) in missing {
            let bytes = match read.next() {
                Some(Ok(bytes)) => bytes,
                Some(Err(e)) if e.kind() == ErrorKind::NotFound => {
                    self.warn(format!("{} is gone: it was archived or undone meanwhile", self.describe(instant)));
                    continue;
                }
                Some(Err(e)) => return Err(e.context(self.describe(instant))),
                None => return Err(Error::internal("storage answered fewer reads than were asked for")),
            };
            let parsed = Arc::new(parse(instant, &bytes).map_err(|e| e.context(self.describe(instant)))?);
            map(&mut self.0.contents.kept()).insert(instant.requested, parsed.clone());
            *slot = Some(parsed);
        }
        Ok(found)
    }

    fn describe(&self, instant: &Instant) -> String {
        let state = if instant.state == State::Completed { String::new() } else { format!("{} ", instant.state) };
        format!("{state}{} {} ({}/{})", instant.action, instant.requested, self.folder(), instant.file_name())
    }
}
