//! How a timeline is archived: Hudi's settings by their names.

use super::super::clean::{CleanPolicy, CleanSettings};
use super::super::options::WriterOptions;
use crate::error::{Error, Result};

/// How a timeline is archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Completed writes that stay.
    pub min: usize,
    /// Completed writes above which archival begins.
    pub max: usize,
    /// Records in one block of layout 1.
    pub batch: usize,
    /// Go on beyond savepoints, which then stay behind.
    pub beyond_savepoint: bool,
    /// Delta commits that must stay for a compaction to be scheduled.
    pub compact_after: usize,
    /// Files of one level of layout 2 that are merged into the next.
    pub merge_files: usize,
    /// Archive after commits, not only when asked to.
    pub automatic: bool,
}

impl ArchiveSettings {
    /// From a writer's settings. More stays than asked for where the cleaner needs it.
    pub fn new(options: &WriterOptions, clean: &CleanSettings) -> Result<ArchiveSettings> {
        let min: usize = options.parsed("hoodie.keep.min.commits", 20)?;
        let max: usize = options.parsed("hoodie.keep.max.commits", 30)?;
        if min >= max {
            return Err(Error::invalid(format!("hoodie.keep.min.commits={min} and hoodie.keep.max.commits={max}"))
                .with_hint("archival keeps at least the one and begins above the other, which must be larger"));
        }
        // The commits that the cleaner goes by must be on the timeline, and one before them.
        let needed = match clean.policy {
            CleanPolicy::Commits(retained) => retained + 2,
            CleanPolicy::Versions(_) | CleanPolicy::Hours(_) => 1,
        };
        let more = needed.saturating_sub(min);
        Ok(ArchiveSettings {
            min: min + more,
            max: max + more,
            batch: options.parsed("hoodie.commits.archival.batch", 10)?,
            beyond_savepoint: options.parsed("hoodie.archive.beyond.savepoint", false)?,
            compact_after: options.parsed("hoodie.compact.inline.max.delta.commits", 5)?,
            merge_files: options.parsed("hoodie.timeline.compaction.batch.size", 10)?.max(2),
            automatic: options.parsed("hoodie.archive.automatic", true)?,
        })
    }
}
