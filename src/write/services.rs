//! Table services: by command, and after a commit when it is their turn.
//!
//! After a commit they are done in the order in which they help each other: the metadata table is compacted, then merge-on-read
//! groups, then what nobody needs is cleaned, then old instants are archived. A service that fails after a commit does not
//! undo the commit: it is told, and tried again after the next one.

use super::archive;
use super::clean;
use super::compact::Compactor;
use super::metadata;
use super::report::{CommitReport, ServiceReport};
use super::rollback;
use super::session::Session;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::format::properties::TableType;
use crate::metadata::write::MetadataWriter;
use crate::table::Table;
use std::sync::Arc;

/// Whether services run after a commit (`hoodie.table.services.enabled`).
const ENABLED: &str = "hoodie.table.services.enabled";
/// Whether compaction does.
const COMPACT_INLINE: &str = "hoodie.compact.inline";

/// The services of one table.
pub(super) struct Services<'w> {
    pub session: &'w Arc<Session>,
    pub table: &'w Table,
}

impl Services<'_> {
    /// What is due after a commit.
    pub fn after_commit(&self, report: &mut CommitReport) -> Result<()> {
        let options = self.session.options();
        if !options.inline_services || !options.parsed(ENABLED, true)? {
            return Ok(());
        }
        let mut told = |service: &str, result: Result<Vec<ServiceReport>>| match result {
            Ok(done) => report.services.extend(done),
            Err(error) => {
                tracing::warn!(%error, service, "a table service failed after a commit");
                report.warnings.push(format!("{service} failed and will be tried again: {error}"));
            }
        };
        told("compaction of the metadata table", self.maintain_metadata());
        let merge_on_read = self.table.snapshot().config().table_type() == TableType::MergeOnRead;
        if merge_on_read && options.parsed(COMPACT_INLINE, true)? {
            told("compaction", self.compactor().run(false));
        }
        told("clean", clean::run(self.session, false).map(Vec::from_iter));
        told("archival", archive::run(self.session, false).map(Vec::from_iter));
        Ok(())
    }

    /// Compacts the metadata table if it is time.
    fn maintain_metadata(&self) -> Result<Vec<ServiceReport>> {
        if self.table.snapshot().config().metadata_partitions().is_empty() {
            return Ok(Vec::new());
        }
        let critical = self.session.critical()?;
        let options = metadata::options(self.session.options())?;
        let Some(writer) = MetadataWriter::open(self.session.storage().clone(), critical.timeline(), options)? else {
            return Ok(Vec::new());
        };
        let done = writer.maintain()?.map(|instant| ServiceReport {
            service: "compact".to_owned(),
            instant: Some(instant.to_string()),
            items: 1,
            detail: "the metadata table".to_owned(),
        });
        Ok(done.into_iter().collect())
    }

    /// Finishes pending compactions, then schedules and runs one. A copy-on-write table has nothing to compact.
    pub fn compact(&self) -> Result<Vec<ServiceReport>> {
        match self.table.snapshot().config().table_type() {
            TableType::MergeOnRead => self.compactor().run(true),
            TableType::CopyOnWrite => Ok(Vec::new()),
        }
    }

    fn compactor(&self) -> Compactor<'_> {
        Compactor { session: self.session, table: self.table }
    }

    /// Rolls back failed writes; with an instant, that one, which must be pending and not alive.
    pub fn rollback(&self, instant: Option<&str>) -> Result<Vec<ServiceReport>> {
        let mut critical = self.session.critical()?;
        let Some(text) = instant else {
            return Ok(rollback::failed(self.session, &mut critical)?.into_iter().map(rolled_back).collect());
        };
        let time = InstantTime::parse(text).ok_or_else(|| Error::invalid(format!("{text:?} is no instant")))?;
        let pending = critical.timeline().pending().find(|i| i.requested == time).copied();
        let Some(pending) = pending else {
            let error = if critical.timeline().contains_completed(time) {
                Error::invalid(format!("{time} is completed, and only pending writes are rolled back"))
                    .with_hint("a completed commit is undone by restoring a savepoint with Hudi")
            } else {
                Error::not_found(format!("there is no pending instant {time}"))
                    .with_hint("`hudifs timeline` lists them")
            };
            return Err(error.at_instant(time));
        };
        if rollback::beats(self.session, &pending)? {
            return Err(Error::new(crate::ErrorKind::Conflict, format!("the {pending} is still alive"))
                .at_instant(time)
                .with_hint(
                    "stop its writer first; once its heartbeat has stopped for two minutes it counts as failed",
                ));
        }
        rollback::pending(self.session, &mut critical, &pending)?;
        Ok(vec![rolled_back(time)])
    }
}

fn rolled_back(time: InstantTime) -> ServiceReport {
    ServiceReport {
        service: "rollback".to_owned(),
        instant: Some(time.to_string()),
        items: 1,
        detail: "a failed write".to_owned(),
    }
}
