//! Reading a file slice: the rows of its base file with the changes of its log files merged in.
//!
//! [`SliceReader`] gives batches with meta columns, in the table's schema whatever the files have. Logs are read first
//! (`records`); then the base file passes by, batch by batch, each row giving way to a change of its key where the table's
//! merge rules say so, and in the end the rows whose keys the base file did not have. A slice without logs is not looked into:
//! its batches pass as they are.
//! Format: docs/format.md, "Merging".

mod adapt;
mod base;
mod deletes;
mod keys;
mod records;
mod rules;
mod store;
mod table;

pub(in crate::slice) use adapt::adapt;
pub use records::LogCounts;
pub use table::{for_each_batch, slices_of};

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::format::properties::{BaseFormat, TableConfig};
use crate::record::parquet_file::ParquetFile;
use crate::record::{MergeRules, OrderingValue, TableSchema};
use crate::storage::{Storage, TablePath};
use crate::table::{FileSlice, Snapshot};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, interleave_record_batch};
use keys::KeyColumns;
use records::{LogRecords, LogScan};
use rules::Change;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows given at a time from what only logs have.
const LOG_ROWS: usize = 8192;
/// Encoded bytes of such rows at a time.
const LOG_BYTES: usize = 32 << 20;

/// How a slice is read.
#[derive(Clone)]
pub struct ReadOptions {
    /// Bytes of log records held in memory; the rest goes to a temporary file. Keys are held beside them.
    pub memory: usize,
    /// Which instants' blocks count. From table version 8 on log files are told apart by their names, and all do.
    pub wanted: Arc<dyn Fn(&InstantTime) -> bool + Send + Sync>,
}

impl std::fmt::Debug for ReadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOptions").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl ReadOptions {
    /// What a snapshot shows.
    pub fn of_snapshot(snapshot: &Snapshot, memory: usize) -> ReadOptions {
        let context = snapshot.context().clone();
        let by_file = context.config().version().slices_by_completion_time();
        ReadOptions { memory, wanted: Arc::new(move |time| by_file || context.is_visible(*time)) }
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The merged rows of one slice.
pub struct SliceReader {
    schema: TableSchema,
    keys: KeyColumns,
    base: Option<Batches>,
    base_name: String,
    logs: LogRecords,
    /// Rows that only logs have, once the base file is through.
    inserts: Option<std::vec::IntoIter<records::Entry>>,
    merged: MergeCounts,
}

/// What merging did to the rows of a slice, of the batches given so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Rows of the base file that a log replaced.
    pub updated: u64,
    /// Rows of the base file that a log deleted.
    pub deleted: u64,
    /// Rows that only logs have.
    pub inserted: u64,
}

impl SliceReader {
    /// Reads the logs of a slice and opens its base file.
    pub fn open(
        storage: &dyn Storage,
        config: &TableConfig,
        slice: &FileSlice,
        schema: &TableSchema,
        rules: &MergeRules,
        options: &ReadOptions,
    ) -> Result<SliceReader> {
        let partition = TablePath::parse(&slice.partition)?;
        check_readable(config, slice)?;
        let keys = KeyColumns::new(config, schema, rules)?;
        let scan = LogScan {
            storage,
            partition: &partition,
            keys: &keys,
            wanted: &*options.wanted,
            budget: options.memory,
            keys_only: false,
        };
        let logs = LogRecords::load(&scan, &slice.log_files, schema)?;
        let mut base_name = String::new();
        let base = match &slice.base_file {
            Some(file) => {
                let path = partition.join(&file.name)?;
                base_name = path.to_string();
                let file = ParquetFile::open(storage, &path, Some(file.size))?;
                let batches = base::batches(file, schema).map_err(|e| e.context(&path))?;
                Some(Box::new(batches) as Batches)
            }
            None => None,
        };
        Ok(SliceReader {
            schema: schema.clone(),
            keys,
            base,
            base_name,
            logs,
            inserts: None,
            merged: MergeCounts::default(),
        })
    }

    /// What was read of the logs.
    pub fn log_counts(&self) -> LogCounts {
        self.logs.counts
    }

    /// What merging did, of the batches given so far.
    pub fn merged(&self) -> MergeCounts {
        self.merged
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(base) = &mut self.base {
            match base.next() {
                Some(batch) => {
                    let batch = batch.and_then(|b| adapt::adapt(&b, self.schema.with_meta()));
                    let merged = batch.and_then(|b| self.merge(b)).map_err(|e| e.context(&self.base_name))?;
                    if merged.num_rows() > 0 {
                        return Ok(Some(merged));
                    }
                }
                None => self.base = None,
            }
        }
        self.insert_batch()
    }

    /// A batch of the base file, with the changes of its keys.
    fn merge(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = self.keys.project(&batch)?;
        let batch = self.without_deleted(batch, &rows)?;
        if self.logs.entries.is_empty() {
            return Ok(batch);
        }
        let rows = self.keys.project(&batch)?;
        let names = self.keys.keys(&rows)?;
        let mut orderings = None;
        // Row by row: which batch the row comes from, the base file's being the last, and its place there.
        let mut picks: Vec<Option<(usize, usize)>> = Vec::with_capacity(batch.num_rows());
        let mut touched = false;
        for (row, name) in names.iter().enumerate() {
            let Some(entry) = name.and_then(|name| self.logs.entries.remove(name)) else {
                picks.push(Some((usize::MAX, row)));
                continue;
            };
            if orderings.is_none() {
                orderings = Some(self.keys.ordering(&rows)?);
            }
            let held = orderings.as_ref().and_then(|o| o.as_ref()).map_or(OrderingValue::Default, |o| o.get(row));
            let held = Change { ordering: held, delete: false };
            if !rules::later_stands(self.keys.mode(), &held, &entry.change, entry.change.delete) {
                picks.push(Some((usize::MAX, row)));
                continue;
            }
            touched = true;
            let count = if entry.change.delete { &mut self.merged.deleted } else { &mut self.merged.updated };
            *count += 1;
            picks.push(if entry.change.delete { None } else { Some(self.logs.decode(&entry)?) });
        }
        if touched { self.picked(batch, picks) } else { Ok(batch) }
    }

    /// Rows of a base file that are marked as deleted are not shown.
    fn without_deleted(&self, batch: RecordBatch, rows: &RecordBatch) -> Result<RecordBatch> {
        let Some(deletes) = self.keys.deletes(rows)? else { return Ok(batch) };
        let keep: BooleanArray = deletes.iter().map(|d| Some(d != Some(true))).collect();
        filter_record_batch(&batch, &keep).map_err(internal)
    }

    fn picked(&mut self, base: RecordBatch, picks: Vec<Option<(usize, usize)>>) -> Result<RecordBatch> {
        let mut batches = self.logs.decoded()?;
        let last = batches.len();
        batches.push(base);
        let picks: Vec<(usize, usize)> = picks.into_iter().flatten().map(|(b, row)| (b.min(last), row)).collect();
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        interleave_record_batch(&batches, &picks).map_err(internal)
    }

    /// Rows that only logs have.
    fn insert_batch(&mut self) -> Result<Option<RecordBatch>> {
        let inserts = self.inserts.get_or_insert_with(|| self.logs.take_inserts().into_iter());
        let mut picks = Vec::new();
        for entry in inserts.by_ref() {
            picks.push(self.logs.decode(&entry)?);
            if picks.len() >= LOG_ROWS || self.logs.decoded_bytes() >= LOG_BYTES {
                break;
            }
        }
        if picks.is_empty() {
            return Ok(None);
        }
        self.merged.inserted += picks.len() as u64;
        let batches = self.logs.decoded()?;
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        interleave_record_batch(&batches, &picks).map(Some).map_err(internal)
    }
}

impl Iterator for SliceReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// The rows of a base file with the table's columns and meta columns; rows that are marked as deleted are among them.
pub(super) fn base_batches(
    storage: &dyn Storage,
    path: &TablePath,
    size: Option<u64>,
    schema: &TableSchema,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let batches = base::batches(ParquetFile::open(storage, path, size)?, schema).map_err(|e| e.context(path))?;
    let (schema, name) = (schema.clone(), path.to_string());
    Ok(batches.map(move |batch| batch.and_then(|b| schema.conform_with_meta(&b)).map_err(|e| e.context(&name))))
}

/// The keys that the logs of a slice leave deleted, for lookups that see base files only.
pub fn deleted_by_logs(snapshot: &Snapshot, slice: &FileSlice) -> Result<HashSet<Box<str>>> {
    let logs = logs_of(snapshot, slice)?;
    Ok(logs.entries.into_iter().filter(|(_, e)| e.change.delete).map(|(key, _)| key).collect())
}

/// The keys that the logs of a slice leave with a row.
pub fn written_by_logs(snapshot: &Snapshot, slice: &FileSlice) -> Result<HashSet<Box<str>>> {
    let logs = logs_of(snapshot, slice)?;
    Ok(logs.entries.into_iter().filter(|(_, e)| !e.change.delete).map(|(key, _)| key).collect())
}

fn logs_of(snapshot: &Snapshot, slice: &FileSlice) -> Result<LogRecords> {
    let schema = table::schema_of(snapshot)?;
    let rules = MergeRules::new(snapshot.config())?;
    let keys = KeyColumns::new(snapshot.config(), &schema, &rules)?;
    let options = ReadOptions::of_snapshot(snapshot, 0);
    let partition = TablePath::parse(&slice.partition)?;
    let scan = LogScan {
        storage: &**snapshot.storage(),
        partition: &partition,
        keys: &keys,
        wanted: &*options.wanted,
        budget: 0,
        keys_only: true,
    };
    LogRecords::load(&scan, &slice.log_files, &schema)
}

/// Refuses by name what is no Parquet file with all of its columns.
fn check_readable(config: &TableConfig, slice: &FileSlice) -> Result<()> {
    if config.base_format() != BaseFormat::Parquet {
        return Err(Error::unsupported(format!("rows of {:?} files", config.base_format())));
    }
    if slice.base_instant.as_str() == InstantTime::METADATA_BOOTSTRAP && slice.base_file.is_some() {
        return Err(Error::unsupported(format!(
            "file group {} of a METADATA_ONLY bootstrap: its columns are in a file of the source",
            slice.file_id
        )));
    }
    Ok(())
}

fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows could not be merged: {error}")).with_source(error)
}
