//! Keeping the metadata table in step with the data table.
//!
//! [`MetadataWriter::update`] puts the records of one data table instant into the metadata table, as a delta commit of the same
//! instant, **before** that instant completes on the data table: readers ignore it until then. Every action that changes files
//! must come by here. What is left of an earlier attempt of the instant is rolled back first.
//!
//! A partition of the metadata table that the data table calls ready, or being built, is written to; one that this build
//! cannot maintain makes [`MetadataWriter::open`] refuse the table, because a stale index loses rows for every reader.
//! Format: docs/format.md, "Metadata table".

mod base_file;
mod bootstrap;
mod changes;
mod compact;
mod create;
mod delta;
mod drop;
mod inventory;
pub(super) mod keys;
mod log_file;
mod options;
mod partition_stats;
mod plan;
pub(super) mod record;
pub(super) mod schema;
mod setup;
mod target;
mod undo;
mod verify;

pub use changes::{AddedFile, Changes, KeysOfGroup, PartitionChanges};
pub use drop::drop_partitions;
pub use options::{DataFiles, MetadataKinds, MetadataOptions, RecordIndexShape};
pub use verify::{Finding, verify};

use super::lister::MetadataLister;
use super::{COLUMN_STATS, PARTITION_STATS, RECORD_INDEX};
use crate::error::{Error, ErrorKind, Result};
use crate::format::instant::{Action, Instant, InstantTime};
use crate::format::properties::TableConfig;
use crate::storage::Storage;
use crate::timeline::Timeline;
use partition_stats::{Sources, partition_stats};
use plan::PartitionRows;
use record::Encoder;
use schema::RecordFormat;
use setup::Setup;
use std::sync::Arc;
use target::Target;

/// Columns that have statistics where none are named, beside meta columns.
const COLUMNS_MAX: usize = 32;
/// What a rollback of the metadata table appends to the time of the data table's, up to table version 6.
const ROLLBACK_SUFFIX: &str = "006";
/// What a compaction of the metadata table appends to the time of the newest delta commit, up to table version 6.
const COMPACTION_SUFFIX: &str = "001";

/// Writes the metadata table of one table, as of one state of the data table's timeline.
#[derive(Debug)]
pub struct MetadataWriter {
    storage: Arc<dyn Storage>,
    data: Timeline,
    setup: Setup,
    options: MetadataOptions,
}

impl MetadataWriter {
    /// Opens the metadata table of the data table whose timeline is given: one that was loaded under the table's lock, after
    /// the instant to be written had begun. `None` if the table has no metadata table, and nothing need be done.
    ///
    /// `Unsupported` if it has partitions that cannot be maintained, unless the options say to drop them, which is done here.
    pub fn open(
        storage: Arc<dyn Storage>,
        data: &Timeline,
        options: MetadataOptions,
    ) -> Result<Option<MetadataWriter>> {
        if !MetadataLister::is_available(data) {
            return Ok(None);
        }
        let mut setup = Setup::load(&*storage, data.config())?;
        let unsupported: Vec<String> = setup.unsupported().into_iter().map(str::to_owned).collect();
        if !unsupported.is_empty() {
            let names: Vec<&str> = unsupported.iter().map(String::as_str).collect();
            if !options.drop_unsupported_index {
                return Err(setup::refuse(&names));
            }
            for gone in drop_partitions(&storage, data, &names)? {
                setup.partitions.remove(&gone);
            }
        }
        Ok(Some(MetadataWriter { storage, data: data.clone(), setup, options }))
    }

    /// Makes the metadata table of a table, or further partitions of it, from what the table holds: nothing, for one that was
    /// just created; else from a listing of storage, the ranges and the keys of its files. `inflight` is the instant of the
    /// caller's own write, if it has begun. Answers the table's properties, which name the new partitions.
    ///
    /// `Conflict` up to table version 6 while other instants are pending.
    pub fn bootstrap(
        storage: &Arc<dyn Storage>,
        data: &Timeline,
        kinds: &MetadataKinds,
        inflight: Option<InstantTime>,
        files: &dyn DataFiles,
        options: &MetadataOptions,
    ) -> Result<TableConfig> {
        bootstrap::bootstrap(storage, data, kinds, inflight, files, options)
    }

    /// The columns whose ranges files must bring along; empty for all, `None` for "no column statistics are kept". Columns
    /// without an order (lists, maps, records) may be among them and are passed over.
    pub fn column_stats(&self) -> Option<&[String]> {
        self.setup.has(COLUMN_STATS).then_some(&self.setup.columns)
    }

    /// True if the keys that files gain and lose must be brought along.
    pub fn has_record_index(&self) -> bool {
        self.setup.has(RECORD_INDEX)
    }

    /// Commits the changes that the data table's instant makes, under that instant. Call it with all data files in place, right
    /// before the instant completes. What an attempt before left of the instant is taken back first.
    pub fn update(&self, instant: InstantTime, changes: &Changes) -> Result<()> {
        let target = self.target()?;
        let timeline = self.without_leftover(&target, instant)?;
        let rows = self.plan(&timeline, instant, changes)?;
        delta::commit(&target, &timeline, instant, &rows).map_err(|e| e.context("metadata table"))?;
        self.name_columns(changes)
    }

    /// Takes back what `undone` put into the metadata table, for a rollback of it on the data table at instant `rollback`, and
    /// records log files that the rollback added (table version 6). `Conflict` if a compaction of the metadata table has
    /// already taken it in: then only building it anew helps.
    pub fn rollback(&self, rollback: InstantTime, undone: InstantTime, added: &Changes) -> Result<()> {
        let target = self.target()?;
        let timeline = undo::finish_pending(&target, target.timeline()?)?;
        check_not_compacted(&timeline, undone)?;
        match self.setup.format {
            RecordFormat::V6 => {
                let timeline = self.without_leftover(&target, rollback)?;
                let rows = vec![plan::files(added, Encoder::new(self.setup.format))?];
                delta::commit(&target, &timeline, rollback, &rows)?;
                let timeline = target.timeline()?;
                match delta_commit(&timeline, undone) {
                    Some(found) => undo::roll_back(&target, &timeline, &found, suffixed(rollback, ROLLBACK_SUFFIX)?),
                    None => Ok(()),
                }
            }
            RecordFormat::V8 | RecordFormat::V9 => match delta_commit(&timeline, undone) {
                Some(found) => undo::roll_back(&target, &timeline, &found, rollback),
                None => Ok(()),
            },
        }
    }

    /// Compacts, if it is time and the data table's pending instants allow it, and carries out what a crash left to be done.
    /// Call it under the table's lock, before an instant's changes are put in or after it completed. Cleaning and archival are
    /// the services that every table has.
    pub fn maintain(&self) -> Result<Option<InstantTime>> {
        let done = compact::maintain(&self.target()?, self.options.compact_after.max(1));
        done.map_err(|e| e.context("metadata table"))
    }

    fn target(&self) -> Result<Target<'_>> {
        Target::new(&self.storage, &self.data, &self.setup, self.options.threads)
    }

    /// The metadata table's timeline, after whatever it had of the instant was rolled back.
    fn without_leftover(&self, target: &Target<'_>, instant: InstantTime) -> Result<Timeline> {
        // Up to version 6 the next log file is named after a compaction that is pending, which must not stay so.
        let timeline = match self.setup.format {
            RecordFormat::V6 => compact::finish_pending(target)?.0,
            RecordFormat::V8 | RecordFormat::V9 => target.timeline()?,
        };
        let timeline = undo::finish_pending(target, timeline)?;
        let Some(found) = delta_commit(&timeline, instant) else { return Ok(timeline) };
        undo::roll_back(target, &timeline, &found, target.new_time(&timeline)?)?;
        timeline.reload(&*self.storage)
    }

    fn plan<'c>(
        &self,
        timeline: &Timeline,
        instant: InstantTime,
        changes: &'c Changes,
    ) -> Result<Vec<PartitionRows<'c>>> {
        let (setup, encoder) = (&self.setup, Encoder::new(self.setup.format));
        let mut rows = vec![plan::files(changes, encoder)?];
        if setup.has(COLUMN_STATS) {
            let columns = self.columns(changes)?;
            rows.push(plan::column_stats(changes, setup, &columns, encoder));
            if setup.has(PARTITION_STATS) {
                let (storage, data, metadata) = (&*self.storage, &self.data, timeline);
                let sources = Sources { storage, data, metadata, setup, columns: &columns };
                rows.push(partition_stats(&sources, instant, changes, encoder)?);
            }
        }
        if setup.has(RECORD_INDEX) {
            rows.push(plan::record_index(changes, instant, self.data.config().zone())?);
        }
        Ok(rows)
    }

    /// All columns that have ranges: those that are named; if none are, those of the table, as Hudi chooses them.
    fn columns(&self, changes: &Changes) -> Result<Vec<String>> {
        if !self.setup.columns.is_empty() {
            return Ok(self.setup.columns.clone());
        }
        let table = setup::table_columns(&*self.storage, &self.data)?;
        let mut columns: Vec<String> = setup::META_COLUMNS.map(str::to_owned).into();
        let most = if self.setup.format == RecordFormat::V6 { usize::MAX } else { COLUMNS_MAX + columns.len() };
        for column in table.into_iter().chain(brought(changes)) {
            if columns.len() < most && !columns.contains(&column) && !column.starts_with("_hoodie_") {
                columns.push(column);
            }
        }
        Ok(columns)
    }

    /// Names columns in the definition of the index that named none so far, as Hudi does with the first commit of a table.
    fn name_columns(&self, changes: &Changes) -> Result<()> {
        let is_named = self.setup.format == RecordFormat::V6 || !self.setup.columns.is_empty();
        if is_named || !self.setup.has(COLUMN_STATS) {
            return Ok(());
        }
        let brought = brought(changes);
        let columns: Vec<String> = self.columns(changes)?.into_iter().filter(|c| brought.contains(c)).collect();
        if columns.is_empty() {
            return Ok(());
        }
        setup::name_columns(&*self.storage, self.data.config(), &self.setup, columns)
    }
}

/// The columns that new files bring ranges of, in the order of their first file.
fn brought(changes: &Changes) -> Vec<String> {
    let files = changes.partitions.values().flat_map(|p| p.added.values());
    let mut columns: Vec<String> = Vec::new();
    for range in files.flat_map(|file| &file.columns) {
        if !columns.contains(&range.column) {
            columns.push(range.column.clone());
        }
    }
    columns
}

/// The delta commit of that time, in whatever state.
fn delta_commit(timeline: &Timeline, time: InstantTime) -> Option<Instant> {
    let mut found = timeline.instants().iter().filter(|i| i.action == Action::DeltaCommit && i.requested == time);
    found.next_back().copied()
}

/// A time with what a service of the metadata table appends to it.
fn suffixed(time: InstantTime, suffix: &str) -> Result<InstantTime> {
    InstantTime::parse(&format!("{time}{suffix}"))
        .ok_or_else(|| Error::unsupported(format!("{time}{suffix} has too many digits for an instant")))
}

/// Fails if the newest compaction has taken in what an instant wrote.
fn check_not_compacted(timeline: &Timeline, undone: InstantTime) -> Result<()> {
    let Some(compaction) = timeline.completed().rfind(|i| i.action == Action::Commit) else { return Ok(()) };
    let Some(found) = delta_commit(timeline, undone) else { return Ok(()) };
    let taken_in = match found.completion {
        Some(at) => at.as_str().len() == compaction.requested.as_str().len() && at <= compaction.requested,
        None => found.is_completed() && undone <= compaction.requested,
    };
    if !taken_in {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("the metadata table has been compacted at {} with what {undone} wrote", compaction.requested),
    )
    .with_hint("build the metadata table anew"))
}
