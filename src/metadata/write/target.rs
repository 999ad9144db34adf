//! [`Target`]: the metadata table as something to write to.

use super::schema::RecordFormat;
use super::setup::Setup;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::metadata::ROOT;
use crate::metadata::slice::Group;
use crate::storage::{Storage, TablePath};
use crate::timeline::{InstantWriter, Timeline, load_config};
use std::sync::Arc;

/// The metadata table of one data table.
pub(super) struct Target<'a> {
    /// Rooted at the data table.
    pub storage: &'a Arc<dyn Storage>,
    /// Rooted at the metadata table.
    pub files: Arc<dyn Storage>,
    /// The data table's timeline.
    pub data: &'a Timeline,
    pub format: RecordFormat,
    pub threads: usize,
}

impl<'a> Target<'a> {
    pub fn new(storage: &'a Arc<dyn Storage>, data: &'a Timeline, setup: &Setup, threads: usize) -> Result<Target<'a>> {
        let files = storage.rooted_at(&root()?)?;
        Ok(Target { storage, files, data, format: setup.format, threads })
    }

    /// The metadata table's timeline, as it is now.
    pub fn timeline(&self) -> Result<Timeline> {
        let root = root()?;
        let config = load_config(&**self.storage, &root)?;
        if config.version() != self.data.config().version() {
            return Err(Error::corrupt(format!(
                "the metadata table has version {}, its table has {}",
                config.version().code(),
                self.data.config().version().code()
            ))
            .with_hint("an upgrade of the table was cut off; finish it with Hudi"));
        }
        Timeline::load(&**self.storage, &root, &config)
    }

    /// Writes instants of the metadata table. Their times are of the data table's zone, whatever the metadata table's own
    /// properties say: times of both are compared.
    pub fn instants(&self, timeline: &Timeline) -> Result<InstantWriter> {
        Ok(InstantWriter::new(self.storage.clone(), timeline)?.in_zone(self.data.config().zone()))
    }

    /// A time that is later than all on both timelines.
    pub fn new_time(&self, timeline: &Timeline) -> Result<InstantTime> {
        let data = self.instants(self.data)?.new_time(self.data)?;
        let metadata = self.instants(timeline)?.new_time(timeline)?;
        Ok(data.max(metadata))
    }

    /// The instant that the group's newest slice goes by: of the base file, or of the first log file.
    pub fn slice_instant(&self, group: &Group) -> Option<InstantTime> {
        let named = group.newest_log.map(|(instant, _)| instant);
        match self.format {
            RecordFormat::V6 => group.slice.base_instant.max(named),
            RecordFormat::V8 | RecordFormat::V9 => group.slice.base_instant.or(named),
        }
    }

    /// Up to table version 6: the instant and version of the group's next log file.
    pub fn next_v6_log(&self, group: &Group) -> Result<(InstantTime, u32)> {
        let base = self.slice_instant(group);
        let base = base.ok_or_else(|| Error::corrupt(format!("{} has no file that counts", group.file_id)))?;
        let version = group.newest_log.filter(|(instant, _)| *instant == base).map_or(0, |(_, version)| version);
        Ok((base, version.saturating_add(1)))
    }
}

/// The path of the metadata table in the data table.
pub(super) fn root() -> Result<TablePath> {
    TablePath::parse(ROOT)
}
