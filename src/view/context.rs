//! [`ViewContext`]: what slicing must know of the timeline, fixed as of one instant.
//!
//! Loading reads the completed replace commits and nothing else: which files a commit wrote is told by their names. So the
//! first look at a table costs one listing, however many commits it has. Plans of pending compactions are read only for the
//! merged view ([`ViewContext::with_plans`]): the read-optimized one needs them not, since a base file of a pending instant is
//! not committed whatever the plan says.
//! Format: docs/format.md, "File-system view".

use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::format::properties::TableConfig;
use crate::storage::Storage;
use crate::timeline::Timeline;
use std::collections::HashMap;
use std::sync::Arc;

/// Instants by file group, by partition.
type ByGroup = HashMap<String, HashMap<String, InstantTime>>;

/// The state that a view is fixed to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ViewContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    timeline: Timeline,
    config: TableConfig,
    as_of: Option<InstantTime>,
    /// An instant that counts as completed before it is.
    assumed: Option<InstantTime>,
    /// The newest replace commit at or before the view's instant that names the group.
    replaced: ByGroup,
    registers_external: bool,
    /// Pending compactions; `None` if their plans have not been read.
    compactions: Option<ByGroup>,
}

impl ViewContext {
    /// The state as of the newest completed write, or of the newest at or before `as_of`.
    ///
    /// A table without a completed write has no files, and no instant that could be asked for (`Invalid`).
    pub fn load(
        storage: &dyn Storage,
        timeline: &Timeline,
        config: &TableConfig,
        as_of: Option<InstantTime>,
    ) -> Result<ViewContext> {
        let as_of = match as_of {
            None => timeline.latest_write(),
            Some(moment) => Some(timeline.latest_write_at(moment).ok_or_else(|| too_early(timeline, moment))?),
        };
        let mut inner = Inner {
            timeline: timeline.clone(),
            config: config.clone(),
            as_of,
            assumed: None,
            replaced: ByGroup::new(),
            registers_external: false,
            compactions: None,
        };
        if let Some(as_of) = as_of {
            inner.load_replaced(storage, as_of)?;
        }
        Ok(ViewContext(Arc::new(inner)))
    }

    /// This state with the plans of pending compactions, which merged views need.
    pub fn with_plans(&self, storage: &dyn Storage) -> Result<ViewContext> {
        let pending: Vec<&Instant> = self.0.timeline.pending().filter(|i| i.action == Action::Compaction).collect();
        let plans = self.0.timeline.compaction_plans(storage, &pending)?;
        let mut compactions = ByGroup::new();
        for (instant, plan) in pending.iter().zip(&plans) {
            for operation in plan.iter().flat_map(|p| &p.operations) {
                let groups = compactions.entry(operation.partition.clone()).or_default();
                groups.insert(operation.file_id.clone(), instant.requested);
            }
        }
        Ok(ViewContext(Arc::new(Inner {
            timeline: self.0.timeline.clone(),
            config: self.0.config.clone(),
            as_of: self.0.as_of,
            assumed: self.0.assumed,
            replaced: self.0.replaced.clone(),
            registers_external: self.0.registers_external,
            compactions: Some(compactions),
        })))
    }

    /// This state as if that instant had completed, which the caller is about to complete: what it wrote is visible. What it
    /// replaces is not known here.
    pub fn as_if_completed(&self, instant: InstantTime) -> ViewContext {
        let mut compactions = self.0.compactions.clone();
        for groups in compactions.iter_mut().flat_map(HashMap::values_mut) {
            groups.retain(|_, at| *at != instant);
        }
        ViewContext(Arc::new(Inner {
            timeline: self.0.timeline.clone(),
            config: self.0.config.clone(),
            as_of: self.0.as_of.max(Some(instant)),
            assumed: Some(instant),
            replaced: self.0.replaced.clone(),
            registers_external: self.0.registers_external,
            compactions,
        }))
    }

    /// The write that the view is of; `None` for a table without one.
    pub fn as_of(&self) -> Option<InstantTime> {
        self.0.as_of
    }

    /// The timeline behind it.
    pub fn timeline(&self) -> &Timeline {
        &self.0.timeline
    }

    /// The table's settings.
    pub fn config(&self) -> &TableConfig {
        &self.0.config
    }

    /// True if the view may show what that instant wrote.
    pub fn is_visible(&self, time: InstantTime) -> bool {
        self.0.as_of.is_some_and(|as_of| time <= as_of)
            && (self.0.timeline.is_committed(time) || self.0.assumed == Some(time))
    }

    /// The newest replace commit at or before the view's instant that names the group.
    pub fn replaced_at(&self, partition: &str, file_id: &str) -> Option<InstantTime> {
        self.0.replaced.get(partition)?.get(file_id).copied()
    }

    /// Every replaced group as partition, file id and instant, in no order.
    pub fn replaced(&self) -> impl Iterator<Item = (&str, &str, InstantTime)> {
        flat(&self.0.replaced)
    }

    /// True if a replace commit registered files of another engine: then no listing of storage is complete.
    pub fn registers_external(&self) -> bool {
        self.0.registers_external
    }

    /// The pending compaction that a group is part of; `None` too if the plans have not been read.
    pub fn compaction_of(&self, partition: &str, file_id: &str) -> Option<InstantTime> {
        self.0.compactions.as_ref()?.get(partition)?.get(file_id).copied()
    }

    /// Every group of a pending compaction as partition, file id and instant, in no order; needs [`ViewContext::with_plans`].
    pub fn compactions(&self) -> impl Iterator<Item = (&str, &str, InstantTime)> {
        self.0.compactions.iter().flat_map(flat)
    }
}

fn flat(groups: &ByGroup) -> impl Iterator<Item = (&str, &str, InstantTime)> {
    groups.iter().flat_map(|(partition, groups)| groups.iter().map(move |(id, at)| (&**partition, &**id, *at)))
}

impl Inner {
    fn load_replaced(&mut self, storage: &dyn Storage, as_of: InstantTime) -> Result<()> {
        let commits: Vec<&Instant> =
            self.timeline.writes().filter(|i| i.action == Action::ReplaceCommit && i.requested <= as_of).collect();
        let replacements = self.timeline.replacements(storage, &commits)?;
        // Oldest first, so that the newest stays.
        for (commit, replacement) in commits.iter().zip(replacements) {
            let Some(replacement) = replacement else { continue };
            self.registers_external |= replacement.registers_external;
            for groups in &replacement.replaced {
                let partition = groups.partition.trim_matches('/');
                let by_id = self.replaced.entry(partition.to_owned()).or_default();
                by_id.extend(groups.file_ids.iter().map(|id| (id.clone(), commit.requested)));
            }
        }
        Ok(())
    }
}

fn too_early(timeline: &Timeline, moment: InstantTime) -> Error {
    let error = |message: String| Error::new(ErrorKind::Invalid, message);
    match timeline.writes().next() {
        None => error(format!("no commit at or before {moment}: the table has none yet")),
        Some(first) => {
            error(format!("no commit at or before {moment}: the first on the timeline is {}", first.requested))
                .with_hint(format!(
                    "ask for {} or later; older commits have been archived or never were",
                    first.requested
                ))
        }
    }
}
