//! The tables that the write tests work on.

use super::rows::{self, Row};
use hudifs::format::properties::TableType;
use hudifs::metadata::write::{MetadataKinds, RecordIndexShape};
use hudifs::slice::read::for_each_batch;
use hudifs::storage::{self, Storage, StorageOptions};
use hudifs::write::create::TableSpec;
use hudifs::write::{IndexKind, Writer, WriterOptions};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A kind of table.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub merge_on_read: bool,
    pub version: u8,
    pub index: IndexKind,
    pub metadata: bool,
    /// Filters and files are made small, so that tests are fast and have several files.
    pub small_files: bool,
}

impl Setup {
    pub const COW6: Setup =
        Setup { merge_on_read: false, version: 6, index: IndexKind::Bloom, metadata: false, small_files: true };
    pub const MOR6: Setup = Setup { merge_on_read: true, ..Setup::COW6 };
    pub const COW9: Setup = Setup { version: 9, ..Setup::COW6 };
    pub const MOR9: Setup = Setup { merge_on_read: true, ..Setup::COW9 };

    pub fn is_global(&self) -> bool {
        matches!(self.index, IndexKind::GlobalBloom | IndexKind::GlobalSimple | IndexKind::RecordLevel)
    }

    pub fn options(&self) -> WriterOptions {
        let mut options = WriterOptions { index: Some(self.index), ..WriterOptions::default() };
        let mut set = |key: &str, value: &str| options.settings.insert(key.to_owned(), value.to_owned());
        if self.small_files {
            set("hoodie.index.bloom.num_entries", "50");
            set("hoodie.parquet.max.file.size", "20000");
            set("hoodie.parquet.small.file.limit", "15000");
        }
        set("hoodie.bucket.index.num.buckets", "3");
        // Services come often, so that histories see them.
        set("hudifs.clean.grace.period.seconds", "0");
        set("hoodie.clean.commits.retained", "2");
        set("hoodie.keep.min.commits", "4");
        set("hoodie.keep.max.commits", "6");
        set("hoodie.timeline.compaction.batch.size", "2");
        // Keys follow their rows, so that one model fits all global kinds.
        set("hoodie.record.index.update.partition.path", "true");
        options
    }

    pub fn spec(&self) -> TableSpec {
        TableSpec {
            table_type: if self.merge_on_read { TableType::MergeOnRead } else { TableType::CopyOnWrite },
            version: u32::from(self.version),
            record_key: vec!["id".to_owned()],
            partition_fields: vec!["part".to_owned()],
            ordering_fields: vec!["ts".to_owned()],
            ..TableSpec::new("trips")
        }
    }

    /// A new table in a folder of its own.
    pub fn create(&self) -> (TempDir, Writer) {
        let dir = tempfile::tempdir().unwrap();
        let writer = self.create_in(open(&dir), self.options());
        (dir, writer)
    }

    pub fn create_in(&self, storage: Arc<dyn Storage>, options: WriterOptions) -> Writer {
        let record_index =
            (self.index == IndexKind::RecordLevel).then_some(RecordIndexShape { min_groups: 2, max_groups: 2 });
        let kinds = self.metadata.then(|| MetadataKinds { record_index, ..MetadataKinds::default() });
        Writer::create(storage, &self.spec(), kinds.as_ref(), options).unwrap()
    }

    /// What a snapshot query shows.
    pub fn merged(&self, writer: &Writer) -> Vec<Row> {
        merged(writer)
    }
}

/// The folder as a store.
pub fn open(dir: &TempDir) -> Arc<dyn Storage> {
    storage::open(dir.path().to_str().unwrap(), &StorageOptions::default()).unwrap()
}

/// What a snapshot query shows.
pub fn merged(writer: &Writer) -> Vec<Row> {
    let found = Mutex::new(Vec::new());
    for_each_batch(&writer.table().snapshot(), 2, 1 << 20, |_, batch| {
        found.lock().unwrap().extend(rows::rows_of(&[batch]));
        Ok(())
    })
    .unwrap();
    found.into_inner().unwrap()
}
