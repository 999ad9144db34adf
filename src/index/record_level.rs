//! The record index: the metadata table says where each key lives.
//!
//! Global: keys are unique in the table. Its cost does not grow with the number of files, and it knows of keys that live in
//! log files only. An entry whose file group is not there any more counts as none.

use super::{Index, IndexKind, Key, Location};
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use crate::metadata::record_index::RecordIndex;
use crate::table::Snapshot;

/// The record index of a table.
#[derive(Debug)]
pub(super) struct RecordLevel {
    threads: usize,
}

impl RecordLevel {
    /// `Invalid` for a table without one.
    pub fn new(config: &TableConfig, threads: usize) -> Result<RecordLevel> {
        if config.metadata_partitions().contains(&"record_index") {
            return Ok(RecordLevel { threads });
        }
        Err(Error::invalid("the table's metadata table has no record index")
            .with_hint("build it (hoodie.metadata.global.record.level.index.enable), or choose another index"))
    }
}

impl Index for RecordLevel {
    fn kind(&self) -> &'static str {
        IndexKind::RecordLevel.name()
    }

    fn is_global(&self) -> bool {
        true
    }

    fn sees_logs(&self) -> bool {
        true
    }

    fn tag(&self, snapshot: &Snapshot, keys: &[Key<'_>]) -> Result<Vec<Option<Location>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let index = RecordIndex::open(snapshot.storage().clone(), snapshot.timeline())?;
        let names: Vec<&str> = keys.iter().map(|key| key.key).collect();
        let found = index.lookup(&names, self.threads)?;
        if found.len() != keys.len() {
            return Err(Error::internal("a record index that answers for other keys than it was asked for"));
        }
        let location = |found: crate::metadata::record_index::KeyLocation| {
            // Clustering and overwriting delete or move the entries of the groups that they replace; should a writer have
            // left them, a replaced group holds nothing.
            let replaced = snapshot.context().replaced_at(&found.partition, &found.file_id).is_some();
            (!replaced).then_some(Location {
                partition: found.partition,
                file_id: found.file_id,
                instant: found.instant,
            })
        };
        Ok(found.into_iter().map(|found| found.and_then(location)).collect())
    }
}
