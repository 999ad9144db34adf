//! Appending to the log of a file group: rows in data blocks, then deletes in one delete block.
//!
//! A file is never appended to: each write makes files of its own, a new one whenever the last has grown large. Up to table
//! version 6 they bear the base instant of the slice and its next version, from 8 on the instant that writes. Rows carry
//! their meta columns, with the file group's id for a file name. Memory: one block.
//! Format: docs/format.md, "Log files".

mod block;
mod order;
mod ranges;
mod target;

pub use target::NewLog;

use super::WrittenFile;

use crate::error::{Error, Result};
use crate::format::log::{BlockKind, DeleteContent, HeaderKey, write_block};
use crate::record::{Keyed, MergeRules, TableSchema};
use crate::storage::{ObjectWriter, Storage, TablePath};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use block::Rows;
use order::Orders;
use ranges::Ranges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What rows are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Avro records, Hudi's default.
    Avro,
    /// A Parquet file in each block.
    Parquet,
}

/// How logs are written.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// What data blocks hold.
    pub format: LogFormat,
    /// Bytes of a data block's content, about.
    pub block_bytes: usize,
    /// Bytes after which the next block goes to another file.
    pub file_bytes: u64,
    /// Work out column ranges for the metadata table.
    pub column_ranges: bool,
    /// Tell the keys that were added and removed: for indexes that keep them.
    pub tell_keys: bool,
    /// Fill the meta columns (`hoodie.populate.meta.fields`).
    pub meta_fields: bool,
}

/// Largest block that is put together, whatever the settings say: it is held in memory.
const BLOCK_BYTES_MAX: usize = 64 << 20;

impl LogOptions {
    /// From Hudi's settings. `Invalid` names the setting.
    pub fn new(settings: &BTreeMap<String, String>) -> Result<LogOptions> {
        let number = |key: &str, default: u64| match settings.get(key) {
            None => Ok(default),
            Some(text) => match text.trim().parse::<u64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(Error::invalid(format!("{key}={text:?} is no number of bytes"))),
            },
        };
        const FORMAT: &str = "hoodie.logfile.data.block.format";
        let format = match settings.get(FORMAT).map(|f| f.trim().to_ascii_lowercase()) {
            None => LogFormat::Avro,
            Some(f) if f == "avro" => LogFormat::Avro,
            Some(f) if f == "parquet" => LogFormat::Parquet,
            Some(f) => return Err(Error::unsupported(format!("{FORMAT}={f}: data blocks are avro or parquet"))),
        };
        let block = number("hoodie.logfile.data.block.max.size", 256 << 20)?;
        Ok(LogOptions {
            format,
            block_bytes: usize::try_from(block).unwrap_or(usize::MAX).min(BLOCK_BYTES_MAX),
            file_bytes: number("hoodie.logfile.max.size", 1 << 30)?,
            column_ranges: false,
            tell_keys: false,
            meta_fields: true,
        })
    }
}

/// Rows for a log.
#[derive(Clone, Copy, Debug)]
pub struct LogRows<'a> {
    /// The rows, each key once; those that are deletes go to the delete block.
    pub rows: &'a Keyed,
    /// Rows whose key is in the group already. `None` where nobody knows: rows of a group that is not new count as updates
    /// then, and all keys are told as added.
    pub known: Option<&'a BooleanArray>,
}

/// Told the name of each file before it is made: the place to put a marker.
pub type Announce<'a> = dyn Fn(&str) -> Result<()> + 'a;

/// Appends rows to a file group. Nothing is written without rows.
pub fn append(
    storage: &dyn Storage,
    target: &NewLog,
    schema: &TableSchema,
    rules: &MergeRules,
    rows: &[LogRows<'_>],
    options: &LogOptions,
    announce: &Announce<'_>,
) -> Result<Vec<WrittenFile>> {
    let mut appender = Appender {
        storage,
        target,
        schema,
        rules,
        options,
        announce,
        rows: Rows::new(options.format, schema)?,
        deletes: DeleteContent::default(),
        sequence: 0,
        next_version: target.first_version(),
        file: None,
        done: Vec::new(),
        pending: Counts::default(),
        removed: Vec::new(),
        ranges: Ranges::new(schema.with_meta()),
    };
    for rows in rows {
        appender.add(rows)?;
    }
    appender.finish()
}

/// What is counted of one file.
#[derive(Debug, Default)]
struct Counts {
    written: u64,
    inserts: u64,
    updates: u64,
    deletes: u64,
    added: Vec<String>,
    removed: Vec<String>,
}

struct OpenFile {
    name: String,
    version: u32,
    writer: Box<dyn ObjectWriter>,
    bytes: u64,
    blocks: u64,
}

struct Appender<'a> {
    storage: &'a dyn Storage,
    target: &'a NewLog,
    schema: &'a TableSchema,
    rules: &'a MergeRules,
    options: &'a LogOptions,
    announce: &'a Announce<'a>,
    rows: Rows,
    deletes: DeleteContent,
    sequence: u64,
    next_version: u32,
    file: Option<OpenFile>,
    done: Vec<WrittenFile>,
    /// Of the rows that go to the file at hand.
    pending: Counts,
    /// Keys of the delete block, which goes to the last file.
    removed: Vec<String>,
    ranges: Ranges,
}

impl Appender<'_> {
    fn add(&mut self, rows: &LogRows<'_>) -> Result<()> {
        let Keyed { rows: columns, keys, partitions, deletes } = rows.rows;
        let rows_are_unknown = rows.known.is_none();
        if let Some(other) = partitions.iter().flatten().find(|p| *p != self.target.partition) {
            let of = &self.target.partition;
            return Err(Error::internal(format!("a row of partition {other:?} for a file group of {of:?}")));
        }
        let new_group = self.target.slice.is_none();
        let is_known = |row: usize| rows.known.map_or(!new_group, |known| known.value(row));
        let is_delete = |row: usize| deletes.as_ref().is_some_and(|d| d.is_valid(row) && d.value(row));
        let orders = Orders::new(columns, self.rules.ordering_fields());
        let mut kept = Vec::with_capacity(columns.num_rows());
        for row in 0..columns.num_rows() {
            let delete = is_delete(row);
            kept.push(!delete);
            if delete {
                self.deletes.push(keys.value(row), &self.target.partition, &orders.of(row)?);
            }
        }
        let live = BooleanArray::from(kept);
        if live.true_count() > 0 {
            let mask = |e: arrow::error::ArrowError| Error::internal(format!("rows could not be divided: {e}"));
            let all = self.with_meta(columns, keys)?;
            let batch = if live.true_count() == all.num_rows() {
                all
            } else {
                filter_record_batch(&all, &live).map_err(mask)?
            };
            let live_rows: Vec<usize> = (0..live.len()).filter(|row| live.value(*row)).collect();
            self.add_rows(&batch, &live_rows, keys, &is_known, rows_are_unknown)?;
        }
        if self.options.tell_keys {
            let gone = (0..live.len()).filter(|row| !live.value(*row));
            self.removed.extend(gone.map(|row| keys.value(row).to_owned()));
        }
        Ok(())
    }

    fn add_rows(
        &mut self,
        batch: &RecordBatch,
        rows: &[usize],
        keys: &StringArray,
        is_known: &dyn Fn(usize) -> bool,
        tell_all: bool,
    ) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let taken = self.rows.take(batch, from, self.options.block_bytes)?;
            let piece = batch.slice(from, taken);
            if self.options.column_ranges {
                self.ranges.add(&piece);
            }
            for row in rows.iter().skip(from).take(taken) {
                self.pending.written += 1;
                let known = is_known(*row);
                let count = if known { &mut self.pending.updates } else { &mut self.pending.inserts };
                *count += 1;
                if self.options.tell_keys && (tell_all || !known) {
                    self.pending.added.push(keys.value(*row).to_owned());
                }
            }
            from += taken;
            if self.rows.bytes() >= self.options.block_bytes {
                self.flush_rows()?;
            }
        }
        Ok(())
    }

    /// The rows with their meta columns.
    fn with_meta(&mut self, columns: &RecordBatch, keys: &StringArray) -> Result<RecordBatch> {
        let rows = columns.num_rows();
        let constant =
            |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))) };
        let mut all: Vec<ArrayRef> = if self.options.meta_fields {
            let (instant, task) = (self.target.instant, self.target.task);
            let first = self.sequence + 1;
            self.sequence += rows as u64;
            let sequence = (first..first + rows as u64).map(|n| format!("{instant}_{task}_{n}"));
            vec![
                constant(instant.as_str()),
                Arc::new(StringArray::from_iter_values(sequence)),
                Arc::new(keys.clone()),
                constant(&self.target.partition),
                constant(&self.target.file_id),
            ]
        } else {
            vec![new_null_array(&DataType::Utf8, rows); 5]
        };
        all.extend(columns.columns().iter().cloned());
        RecordBatch::try_new(self.schema.with_meta().clone(), all)
            .map_err(|e| Error::internal(format!("rows do not have the table's columns: {e}")).with_source(e))
    }

    fn flush_rows(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let (kind, content) = self.rows.finish()?;
        self.block(kind, &content)?;
        match &self.file {
            Some(file) if file.bytes > self.options.file_bytes => self.end_file(),
            _ => Ok(()),
        }
    }

    fn block(&mut self, kind: BlockKind, content: &[u8]) -> Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open_file()?,
        };
        let instant = self.target.instant;
        let header = [(HeaderKey::InstantTime, instant.as_str()), (HeaderKey::Schema, self.schema.avro_with_meta())];
        file.bytes += write_block(&mut file.writer, kind, &header, content).map_err(|e| e.context(&file.name))?;
        file.blocks += 1;
        self.file = Some(file);
        Ok(())
    }

    fn open_file(&mut self) -> Result<OpenFile> {
        let (version, name) = self.target.free_name(self.storage, self.next_version)?;
        (self.announce)(&name)?;
        let path = TablePath::parse(&self.target.partition)?.join(&name)?;
        let writer = self.storage.create_writer(&path)?;
        self.next_version = version + 1;
        Ok(OpenFile { name, version, writer, bytes: 0, blocks: 0 })
    }

    fn end_file(&mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let meta = file.writer.finish().map_err(|e| e.context(&file.name))?;
        let counts = std::mem::take(&mut self.pending);
        let mut stat = self.target.stat(&file.name, file.version);
        stat.size = Some(meta.size);
        stat.total_write_bytes = file.bytes;
        stat.records = Some(counts.written);
        (stat.num_inserts, stat.num_updates, stat.num_deletes) = (counts.inserts, counts.updates, counts.deletes);
        let ranges = std::mem::replace(&mut self.ranges, Ranges::new(self.schema.with_meta()));
        self.done.push(WrittenFile {
            partition: self.target.partition.clone(),
            stat,
            columns: if self.options.column_ranges { ranges.finish() } else { Vec::new() },
            keys_added: counts.added,
            keys_removed: counts.removed,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<WrittenFile>> {
        let deletes = std::mem::take(&mut self.deletes);
        if !self.rows.is_empty() {
            let (kind, content) = self.rows.finish()?;
            self.block(kind, &content)?;
        }
        if !deletes.is_empty() {
            self.pending.deletes = deletes.records() as u64;
            self.pending.removed = std::mem::take(&mut self.removed);
            self.block(BlockKind::Delete, &deletes.finish()?)?;
        }
        self.end_file()?;
        Ok(self.done)
    }
}
