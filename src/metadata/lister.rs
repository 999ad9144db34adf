//! [`MetadataLister`]: partitions and files by point lookup.

use super::changes::{Change, Changes};
use super::record::Merge;
use super::source::FileSource;
use super::valid::{Committed, ValidInstants, check_logs, check_maintained};
use super::{ALL_PARTITIONS, FILES, NON_PARTITIONED, ROOT, slice};
use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::Schema;
use crate::format::hfile::{DataBlock, HFile};
use crate::format::properties::TableConfig;
use crate::storage::{Storage, TablePath};
use crate::timeline::{Timeline, load_config};
use crate::view::{ListedFile, Lister};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Decompressed blocks of the base file that are kept, bytes: neighbouring partitions share them.
const BLOCKS_LEN_MAX: usize = 16 << 20;
/// A compaction and a clean may pass between listing the metadata table and reading it.
const ATTEMPTS: usize = 3;

/// The `files` partition of a metadata table, as of the data table's timeline that it was opened with.
#[derive(Debug)]
pub struct MetadataLister {
    base: Option<Base>,
    changes: Changes,
    log_files: usize,
}

#[derive(Debug)]
struct Base {
    path: TablePath,
    file: HFile<FileSource>,
    schema: Schema,
    /// Recently used blocks by their offset, the last used at the end. Held for looking up and putting in only.
    blocks: Mutex<VecDeque<(u64, DataBlock)>>,
}

impl MetadataLister {
    /// True if the table says that its metadata table lists its files.
    pub fn is_available(data: &Timeline) -> bool {
        data.config().metadata_partitions().contains(&FILES)
    }

    /// Opens the metadata table of the data table whose timeline is given, which must have been loaded before. Reads the log
    /// files of the newest slice, and the index of its base file.
    ///
    /// `NotFound` if the table does not use one; any other error means that it cannot be read or trusted.
    pub fn open(storage: &dyn Storage, data: &Timeline) -> Result<MetadataLister> {
        if !Self::is_available(data) {
            return Err(Error::not_found(format!(
                "no metadata table: {FILES} is not in hoodie.table.metadata.partitions"
            )));
        }
        Self::open_at_rest(storage, data).map_err(|e| match e.kind() {
            // That would say that there is none.
            ErrorKind::NotFound => Error::corrupt(format!("metadata table: {}", e.message())).with_source(e),
            _ => e.context("metadata table"),
        })
    }

    /// Opens it again where files went away under the reader.
    fn open_at_rest(storage: &dyn Storage, data: &Timeline) -> Result<MetadataLister> {
        let root = TablePath::parse(ROOT)?;
        let config = load_config(storage, &root)?;
        let mut attempts = 1..ATTEMPTS;
        loop {
            match Self::open_once(storage, data, &root, &config) {
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Stale) && attempts.next().is_some() => {}
                other => return other,
            }
        }
    }

    fn open_once(
        storage: &dyn Storage,
        data: &Timeline,
        root: &TablePath,
        config: &TableConfig,
    ) -> Result<MetadataLister> {
        let metadata = Timeline::load(storage, root, config)?;
        let committed = Committed::new(storage, &metadata);
        check_maintained(data, &committed)?;
        let slice = slice::newest(storage, &committed)?;
        let valid = ValidInstants::new(data, &committed);
        let changes = Changes::read(storage, &slice.logs, &valid)?;
        for warning in &changes.warnings {
            data.warn(format!("metadata table: {warning}"));
        }
        check_logs(data, &committed, slice.base_instant, &changes.instants)?;
        let base = slice.base.map(|path| Base::open(storage, path)).transpose()?;
        let lister = MetadataLister { base, changes, log_files: slice.logs.len() };
        // The record that every metadata table has: without it what was found is not a listing.
        if !lister.has(ALL_PARTITIONS)? {
            return Err(Error::corrupt(format!("no record {ALL_PARTITIONS}")));
        }
        Ok(lister)
    }

    /// The base file from the data table's base, where the slice has one.
    pub fn base_file(&self) -> Option<&TablePath> {
        self.base.as_ref().map(|b| &b.path)
    }

    /// Number of log files that are merged over the base file.
    pub fn log_files(&self) -> usize {
        self.log_files
    }

    /// Number of keys that the log files change.
    pub fn changed_keys(&self) -> usize {
        self.changes.keys_len()
    }

    /// Bytes of memory that are held, about.
    pub fn memory_bytes(&self) -> usize {
        let blocks = self.base.as_ref().map_or(0, |b| b.blocks().iter().map(|(_, b)| b.len()).sum());
        self.changes.memory_bytes() + blocks
    }

    fn has(&self, key: &str) -> Result<bool> {
        Ok(!self.changes.of(key.as_bytes()).is_empty() || self.base_value(key)?.is_some())
    }

    fn base_value(&self, key: &str) -> Result<Option<Bytes>> {
        match &self.base {
            Some(base) => base.get(key.as_bytes()).map_err(|e| e.context(&base.path)),
            None => Ok(None),
        }
    }

    /// The merged record of a key; empty if there is none.
    fn lookup(&self, key: &str) -> Result<Vec<ListedFile>> {
        let mut merge = Merge::default();
        for change in self.changes.of(key.as_bytes()) {
            match change {
                Change::Put(value, schema) => merge.put(schema, value)?,
                Change::Delete => merge.delete(),
            }
        }
        let value = self.base_value(key)?;
        merge.finish(self.base.as_ref().and_then(|b| Some((&b.schema, value.as_deref()?))))
    }
}

impl Lister for MetadataLister {
    fn partitions(&self) -> Result<Vec<TablePath>> {
        let named = self.lookup(ALL_PARTITIONS).map_err(|e| e.context(in_record(ALL_PARTITIONS)))?;
        let path = |name: &str| if name == NON_PARTITIONED { Ok(TablePath::root()) } else { TablePath::parse(name) };
        let mut paths = named
            .iter()
            .map(|file| path(&file.name).map_err(|e| Error::corrupt(format!("{}: {e}", in_record(ALL_PARTITIONS)))))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    fn files(&self, partition: &TablePath) -> Result<Vec<ListedFile>> {
        let key = if partition.is_root() { NON_PARTITIONED } else { partition.as_str() };
        self.lookup(key).map_err(|e| e.context(in_record(key)))
    }

    fn name(&self) -> &'static str {
        "metadata_table"
    }
}

fn in_record(key: &str) -> String {
    format!("metadata table: record {key:?}")
}

impl Base {
    fn open(storage: &dyn Storage, path: TablePath) -> Result<Base> {
        let file = HFile::open(FileSource(storage.open(&path, None)?)).map_err(|e| e.context(&path))?;
        let text = file.info("schema").and_then(|t| std::str::from_utf8(t).ok());
        let text = text.ok_or_else(|| Error::corrupt("file information without a schema").context(&path))?;
        let schema = Schema::parse(text).map_err(|e| e.context(&path))?;
        Ok(Base { path, file, schema, blocks: Mutex::default() })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let Some(at) = self.file.locate(key)? else { return Ok(None) };
        if let Some(block) = self.cached(at.offset) {
            return block.get(key);
        }
        let block = self.file.read_data(at)?;
        self.keep(at.offset, &block);
        block.get(key)
    }

    fn blocks(&self) -> std::sync::MutexGuard<'_, VecDeque<(u64, DataBlock)>> {
        // Whole at every moment, so a panic elsewhere does not spoil it.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self, offset: u64) -> Option<DataBlock> {
        let mut blocks = self.blocks();
        let found = blocks.iter().position(|(at, _)| *at == offset).and_then(|i| blocks.remove(i))?;
        blocks.push_back(found.clone());
        Some(found.1)
    }

    fn keep(&self, offset: u64, block: &DataBlock) {
        let mut blocks = self.blocks();
        blocks.push_back((offset, block.clone()));
        let mut kept: usize = blocks.iter().map(|(_, b)| b.len()).sum();
        // The block just used stays, however large.
        while kept > BLOCKS_LEN_MAX && blocks.len() > 1 {
            kept -= blocks.pop_front().map_or(0, |(_, b)| b.len());
        }
    }
}
