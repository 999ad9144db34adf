//! What the tree is made from: a table's views. [`Source`] and [`View`] are all that this module asks of a table, so that its
//! tests can drive it with tables made of a few lines.

use crate::error::Result;
use crate::format::instant::InstantTime;
use crate::storage::{Storage, TablePath};
pub use crate::table::Changed;
use crate::table::{Snapshot, Table};
use crate::view::{FileRef, PartitionView};
use std::any::Any;
use std::sync::Arc;

/// A table: its present view and those as of earlier moments.
pub trait Source: Send + Sync + 'static {
    /// The table's base URI: part of every inode number, so that two tables never share one.
    fn uri(&self) -> &str;

    /// The newest view that the table has loaded.
    fn current(&self) -> Arc<dyn View>;

    /// The view as of a moment: the newest commit at or before it. `Invalid` for text that is no moment, `NotFound` before
    /// the first commit. May ask the store.
    fn as_of(&self, moment: &str) -> Result<Arc<dyn View>>;

    /// The store that holds the table's files.
    fn storage(&self) -> &Arc<dyn Storage>;
}

/// A table as of an instant; immutable.
pub trait View: Send + Sync + Any + 'static {
    /// The newest completed instant of the view; `None` for a table without commits.
    fn instant(&self) -> Option<InstantTime>;

    /// Completed instants that a reader may ask for by name, in order.
    fn instants(&self) -> Vec<InstantTime>;

    /// All partitions, sorted; the root alone for a table without partitions. May ask the store the first time.
    fn partitions(&self) -> Result<Arc<[TablePath]>>;

    /// The committed files of one partition. May ask the store; the caller caches.
    fn partition(&self, path: &TablePath) -> Result<PartitionView>;

    /// Which partitions differ from an earlier view of the same table.
    fn changed_since(&self, older: &dyn View) -> Result<Changed>;

    /// The time at which an instant happened, milliseconds since the epoch.
    fn instant_ms(&self, instant: &InstantTime) -> i64;

    /// Where a file of a partition is stored.
    fn stored_path(&self, partition: &TablePath, file: &FileRef<'_>) -> Result<TablePath>;
}

impl Source for Table {
    fn uri(&self) -> &str {
        Table::uri(self)
    }

    fn current(&self) -> Arc<dyn View> {
        self.snapshot()
    }

    fn as_of(&self, moment: &str) -> Result<Arc<dyn View>> {
        Ok(Table::as_of(self, moment)?)
    }

    fn storage(&self) -> &Arc<dyn Storage> {
        Table::storage(self)
    }
}

impl View for Snapshot {
    fn instant(&self) -> Option<InstantTime> {
        Snapshot::instant(self)
    }

    fn instants(&self) -> Vec<InstantTime> {
        let shown = |time: &InstantTime| self.instant().is_some_and(|newest| *time <= newest);
        self.timeline().writes().map(|i| i.requested).filter(shown).collect()
    }

    fn partitions(&self) -> Result<Arc<[TablePath]>> {
        Snapshot::partitions(self)
    }

    fn partition(&self, path: &TablePath) -> Result<PartitionView> {
        Snapshot::partition(self, path)
    }

    fn changed_since(&self, older: &dyn View) -> Result<Changed> {
        match (older as &dyn Any).downcast_ref::<Snapshot>() {
            Some(older) => Ok(Snapshot::changed_since(self, older)),
            None => Ok(Changed::Everything),
        }
    }

    fn instant_ms(&self, instant: &InstantTime) -> i64 {
        Snapshot::instant_ms(self, *instant)
    }

    fn stored_path(&self, partition: &TablePath, file: &FileRef<'_>) -> Result<TablePath> {
        Snapshot::stored_path(self, partition, file)
    }
}
