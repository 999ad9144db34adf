//! The work profile: what an inflight instant says that it is about to write.
//!
//! Hudi rolls a failed log write of layout 1 back by it, and tells by it which groups a pending replacement touches.

use super::{CommitMetadata, WriteStat};

impl CommitMetadata {
    /// The metadata of an inflight instant without work yet.
    pub fn profile(operation: &str) -> CommitMetadata {
        CommitMetadata { operation: Some(operation.to_owned()), ..CommitMetadata::default() }
    }

    /// States the records that will be inserted into a partition.
    pub fn plan_inserts(&mut self, partition: &str, inserts: u64) {
        self.add(partition, WriteStat { num_inserts: inserts, ..profiled() });
    }

    /// States the records of a file group that will be updated; `base` is the base instant of its slice.
    pub fn plan_updates(&mut self, partition: &str, file_id: &str, base: &str, updates: u64) {
        let (file_id, previous) = (file_id.to_owned(), Some(base.to_owned()));
        self.add(partition, WriteStat { file_id, previous, num_updates: updates, ..profiled() });
    }
}

/// Hudi's profile states zero where it knows nothing.
fn profiled() -> WriteStat {
    WriteStat { size: Some(0), records: Some(0), ..WriteStat::default() }
}
