//! [`Writer`]: a table opened for writing.

use super::archive;
use super::clean;
use super::create::{self, TableSpec};
use super::engine::Engine;
use super::metadata;
use super::options::WriterOptions;
use super::report::{CommitReport, Phase, ServiceReport};
use super::request::WriteRequest;
use super::services::Services;
use super::session::Session;
use super::supported;
use crate::error::Result;
use crate::format::properties::TableConfig;
use crate::index::IndexKind;
use crate::metadata::write::{MetadataKinds, drop_partitions};
use crate::storage::Storage;
use crate::table::{Table, TableOptions};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A table opened for writing. One writer runs one request at a time; several writers, also in other processes, exclude each
/// other by the table's lock and by the check for conflicts.
#[derive(Debug)]
pub struct Writer {
    table: Arc<Table>,
    session: Arc<Session>,
    /// One request at a time.
    running: Mutex<()>,
}

impl Writer {
    /// Creates a table, with a metadata table if there are `kinds`, and opens it. What its index must keep goes into its
    /// properties. `AlreadyExists` if there is a table; a table without its metadata table is what an error may leave.
    pub fn create(
        storage: Arc<dyn Storage>,
        spec: &TableSpec,
        kinds: Option<&MetadataKinds>,
        options: WriterOptions,
    ) -> Result<Writer> {
        let mut spec = spec.clone();
        let mut settings = spec.properties.clone();
        settings.extend(options.settings.clone());
        let config = TableConfig::parse(&spec.properties()?.encode(&[]))?;
        let default =
            if kinds.is_some_and(|k| k.record_index.is_some()) { IndexKind::RecordLevel } else { IndexKind::Bloom };
        let set = settings.get("hoodie.index.type").map(|t| t.parse::<IndexKind>()).transpose()?;
        let kind = options.index.or(set).unwrap_or(default);
        spec.properties.retain(|key, _| !IndexKind::is_kept(key));
        spec.properties.extend(kind.properties(&config, &settings)?);
        create::create(&*storage, &spec)?;
        let mut writer = Writer::open(storage, options)?;
        if let Some(kinds) = kinds {
            metadata::bootstrap(&writer.session, &writer.table.snapshot(), kinds)?;
            writer.table = Table::open(writer.session.storage().clone(), TableOptions::default())?;
        }
        Ok(writer)
    }

    /// Opens a table for writing. `Unsupported` names what cannot be maintained here and the remedy; nothing is touched.
    pub fn open(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Writer> {
        let table = Table::open(storage.clone(), TableOptions::default())?;
        supported::check(table.snapshot().config())?;
        let session = Arc::new(Session::new(storage, options)?);
        Ok(Writer { table, session, running: Mutex::new(()) })
    }

    /// The table, which the writer refreshes after each commit.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// How it works.
    pub fn options(&self) -> &WriterOptions {
        self.session.options()
    }

    /// Runs one request: one commit. On an error nothing of it is visible, and what was written is rolled back.
    ///
    /// Errors: `Invalid` for rows that do not fit, `Conflict` where another writer was faster or holds the lock, and what the
    /// storage says.
    pub fn run(&self, request: WriteRequest) -> Result<CommitReport> {
        let _one = self.alone();
        let progress = request.progress.clone();
        let mut report = Engine { session: &self.session, table: &self.table }.run(request)?;
        if report.instant.is_some() && !report.replayed {
            progress.enter(Phase::Services);
            self.services().after_commit(&mut report)?;
            self.table.refresh()?;
        }
        Ok(report)
    }

    /// Cleans by the table's policy, whether or not it is its turn; `None` where there is nothing to clean.
    pub fn clean(&self) -> Result<Option<ServiceReport>> {
        let _one = self.alone();
        let report = clean::run(&self.session, true);
        self.table.refresh()?;
        report
    }

    /// Archives instants by the settings' limits.
    pub fn archive(&self) -> Result<Option<ServiceReport>> {
        let _one = self.alone();
        let report = archive::run(&self.session, true);
        self.table.refresh()?;
        report
    }

    /// Finishes pending compactions, then schedules and runs one, whether or not it is its turn.
    pub fn compact(&self) -> Result<Vec<ServiceReport>> {
        let _one = self.alone();
        let reports = self.services().compact();
        self.table.refresh()?;
        reports
    }

    /// Rolls back failed writes; with an instant, that one, which must be pending.
    pub fn rollback(&self, instant: Option<&str>) -> Result<Vec<ServiceReport>> {
        let _one = self.alone();
        let reports = self.services().rollback(instant);
        self.table.refresh()?;
        reports
    }

    /// Builds the metadata table from what the table holds, or those of its partitions that it lacks; `anew`: after dropping
    /// what there is, for one that is found wrong. Readers list storage meanwhile. No other writer may be active.
    pub fn build_metadata(&self, kinds: &MetadataKinds, anew: bool) -> Result<()> {
        let _one = self.alone();
        let built = metadata::build(&self.session, &self.table, kinds, anew);
        self.table.refresh()?;
        built
    }

    /// Drops partitions of the metadata table, and what depends on them; `files` drops all of it. Answers what was dropped. No
    /// other writer may be active.
    pub fn drop_metadata(&self, partitions: &[&str]) -> Result<Vec<String>> {
        let _one = self.alone();
        let critical = self.session.critical()?;
        let dropped = drop_partitions(self.session.storage(), critical.timeline(), partitions);
        drop(critical);
        self.table.refresh()?;
        dropped
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> Services<'_> {
        Services { session: &self.session, table: &self.table }
    }
}
