//! [`Writer`]: a table opened for writing.

use super::engine::Engine;
use super::options::WriterOptions;
use super::report::{CommitReport, ServiceReport};
use super::request::WriteRequest;
use super::session::Session;
use super::supported;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::table::{Table, TableOptions};
use std::sync::{Arc, Mutex, PoisonError};

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
        let _one = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        Engine { session: &self.session, table: &self.table }.run(request)
    }

    /// Cleans by the table's policy, whether or not it is its turn; `None` where there is nothing to clean.
    pub fn clean(&self) -> Result<Option<ServiceReport>> {
        Err(Error::internal("clean is not written yet"))
    }

    /// Archives instants by the settings' limits.
    pub fn archive(&self) -> Result<Option<ServiceReport>> {
        Err(Error::internal("archive is not written yet"))
    }

    /// Finishes pending compactions, then schedules and runs one, whether or not it is its turn.
    pub fn compact(&self) -> Result<Vec<ServiceReport>> {
        Err(Error::internal("compact is not written yet"))
    }

    /// Rolls back failed writes; with an instant, that one, which must be pending.
    pub fn rollback(&self, instant: Option<&str>) -> Result<Vec<ServiceReport>> {
        Err(Error::internal(format!("rollback of {instant:?} is not written yet")))
    }
}
