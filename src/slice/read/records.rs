//! [`LogRecords`]: what the log files of a slice say of each key, merged.
//!
//! Blocks are read one by one, in the order in which they count. Of each row its key and its ordering value are decoded, which
//! is what merging goes by, and the row itself is kept encoded until somebody wants it. Memory: the keys and ordering values of
//! the slice's logs, one block, and encoded rows up to a budget, beyond which they go to a temporary file.

use super::deletes;
use super::keys::KeyColumns;
use super::rules::{self, Change};
use super::store::Store;
use crate::error::{Error, Result};
use crate::format::instant::InstantTime;
use crate::format::log::{self, BlockKind, HeaderKey, LogBlock, LogReader, select};
use crate::metadata::source::FileSource;
use crate::record::avro::{RowDecoder, RowEncoder};
use crate::record::{MergeMode, OrderingValue, TableSchema};
use crate::storage::{Storage, TablePath};
use crate::table::StoredFile;
use arrow::array::{Array, RecordBatch};
use bytes::Bytes;
use std::collections::HashMap;

/// Rows whose keys are decoded at a time.
const KEYS_AT_ONCE: usize = 8192;

/// What was read of the logs of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Log files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks of data and deletes that count.
    pub blocks: u64,
    /// Damaged blocks passed over.
    pub corrupt_blocks: u64,
    /// Rollback blocks.
    pub rollback_blocks: u64,
    /// Rows and deletes in the blocks that count.
    pub records: u64,
}

/// The latest change of a key.
pub(super) struct Entry {
    pub change: Change,
    /// Which schema the row was written with.
    schema: u32,
    at: u64,
    len: u32,
}

/// The changes of all keys, and the rows behind them.
pub(super) struct LogRecords {
    pub entries: HashMap<Box<str>, Entry>,
    pub counts: LogCounts,
    store: Store,
    schemas: Vec<String>,
    decoders: Vec<RowDecoder>,
    table: TableSchema,
}

/// What is needed to read logs.
pub(super) struct LogScan<'a> {
    pub storage: &'a dyn Storage,
    pub partition: &'a TablePath,
    pub keys: &'a KeyColumns,
    /// Instants whose blocks count; from table version 8 on files have been judged by their names already.
    pub wanted: &'a dyn Fn(&InstantTime) -> bool,
    pub budget: usize,
    /// Only keys are wanted, no rows.
    pub keys_only: bool,
}

impl LogRecords {
    /// Reads the log files of a slice, in the order given.
    pub fn load(scan: &LogScan<'_>, logs: &[StoredFile], table: &TableSchema) -> Result<LogRecords> {
        let budget = if scan.keys_only { 0 } else { scan.budget };
        let mut records = LogRecords {
            entries: HashMap::new(),
            counts: LogCounts::default(),
            store: Store::new(budget),
            schemas: Vec::new(),
            decoders: Vec::new(),
            table: table.clone(),
        };
        let mut readers = Vec::with_capacity(logs.len());
        let mut blocks: Vec<(usize, LogBlock)> = Vec::new();
        for (file, log) in logs.iter().enumerate() {
            let path = scan.partition.join(&log.name)?;
            let mut reader = LogReader::new(FileSource(scan.storage.open(&path, Some(log.size))?));
            let found = reader.blocks().map_err(|e| e.context(&path))?;
            blocks.extend(found.into_iter().map(|block| (file, block)));
            readers.push((path, reader));
            records.counts.files += 1;
            records.counts.bytes += log.size;
        }
        let heads = blocks.iter().map(|(_, block)| block.head()).collect::<Result<Vec<_>>>()?;
        let of_kind = |kind| blocks.iter().filter(|(_, b)| b.kind == kind).count() as u64;
        records.counts.corrupt_blocks = of_kind(BlockKind::Corrupt);
        records.counts.rollback_blocks = of_kind(BlockKind::Command);
        for index in select(&heads, scan.wanted)? {
            let Some((file, block)) = blocks.get(index) else { continue };
            let Some((path, reader)) = readers.get_mut(*file) else { continue };
            let place = || format!("{path}: log block at byte {}", block.offset);
            let content = reader.content(block).map_err(|e| e.context(place()))?;
            records.block(scan, block, content).map_err(|e| e.context(place()))?;
        }
        records.store.seal()?;
        Ok(records)
    }

    fn block(&mut self, scan: &LogScan<'_>, block: &LogBlock, content: Bytes) -> Result<()> {
        self.counts.blocks += 1;
        if block.header(HeaderKey::IsPartial).is_some_and(|p| p.eq_ignore_ascii_case("true")) {
            return Err(Error::unsupported("log block of partial updates")
                .with_hint("compact the table with the writer that made them"));
        }
        match block.kind {
            BlockKind::Delete => self.delete_block(scan, &content),
            BlockKind::Avro => {
                let schema = schema_of(block)?;
                self.avro_block(scan, schema, &content)
            }
            BlockKind::Parquet => self.parquet_block(scan, content),
            other => Err(Error::unsupported(format!("{other:?} log block in a table of Parquet files"))),
        }
    }

    fn delete_block(&mut self, scan: &LogScan<'_>, content: &[u8]) -> Result<()> {
        log::deletes(content, |key, _, ordering| {
            let change = Change { ordering: deletes::ordering(&ordering), delete: true };
            self.counts.records += 1;
            self.put(scan.keys.mode(), key, change, true, |_| Ok((0, 0, 0)))
        })
    }

    fn avro_block(&mut self, scan: &LogScan<'_>, schema: &str, content: &[u8]) -> Result<()> {
        let number = self.schema_number(schema);
        let mut decoder = RowDecoder::new(schema, scan.keys.columns().clone())?;
        let mut rows: Vec<&[u8]> = Vec::with_capacity(KEYS_AT_ONCE.min(content.len() / 8 + 1));
        for row in log::avro_records(content)? {
            let row = row?;
            decoder.decode(row).map_err(|e| e.context(format!("record {}", self.counts.records)))?;
            rows.push(row);
            if rows.len() == KEYS_AT_ONCE {
                self.rows(scan, &decoder.finish()?, number, &rows)?;
                rows.clear();
            }
        }
        if rows.is_empty() { Ok(()) } else { self.rows(scan, &decoder.finish()?, number, &rows) }
    }

    /// A block that is a Parquet file: its rows are kept as the Avro rows that they could have been.
    fn parquet_block(&mut self, scan: &LogScan<'_>, content: Bytes) -> Result<()> {
        let schema = self.table.avro_with_meta().to_owned();
        let number = self.schema_number(&schema);
        let encoder = RowEncoder::new(self.table.with_meta(), &schema)?;
        for batch in super::base::batches(content, &self.table)? {
            let batch = super::adapt::adapt(&batch?, self.table.with_meta())?;
            let encoded = encoder.rows(&batch)?;
            let mut bytes = Vec::new();
            let mut ends = Vec::with_capacity(batch.num_rows());
            for row in 0..batch.num_rows() {
                encoded.write(row, &mut bytes)?;
                ends.push(bytes.len());
            }
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let rows: Vec<&[u8]> = starts.zip(&ends).map(|(a, b)| bytes.get(a..*b).unwrap_or_default()).collect();
            self.rows(scan, &scan.keys.project(&batch)?, number, &rows)?;
        }
        Ok(())
    }

    /// Takes rows in: `keys` are the columns that merging goes by.
    fn rows(&mut self, scan: &LogScan<'_>, keys: &RecordBatch, schema: u32, rows: &[&[u8]]) -> Result<()> {
        let names = scan.keys.keys(keys)?;
        let orderings = scan.keys.ordering(keys)?;
        let deletes = scan.keys.deletes(keys)?;
        for (i, row) in rows.iter().enumerate() {
            if names.is_null(i) {
                return Err(Error::corrupt(format!("record {} has no record key", self.counts.records)));
            }
            self.counts.records += 1;
            let delete = deletes.as_ref().is_some_and(|d| d.is_valid(i) && d.value(i));
            let change = Change { ordering: orderings.as_ref().map_or(OrderingValue::Default, |o| o.get(i)), delete };
            let len = u32::try_from(row.len()).map_err(|_| Error::unsupported("a log record of over 4 GiB"))?;
            let kept = !delete && !scan.keys_only;
            self.put(scan.keys.mode(), names.value(i), change, false, |store| {
                Ok(if kept { (schema, store.push(row)?, len) } else { (schema, 0, 0) })
            })?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        mode: MergeMode,
        key: &str,
        change: Change,
        in_delete_block: bool,
        keep: impl FnOnce(&mut Store) -> Result<(u32, u64, u32)>,
    ) -> Result<()> {
        match self.entries.get_mut(key) {
            Some(earlier) if !rules::later_stands(mode, &earlier.change, &change, in_delete_block) => {}
            Some(earlier) => {
                let (schema, at, len) = keep(&mut self.store)?;
                *earlier = Entry { change, schema, at, len };
            }
            None => {
                let (schema, at, len) = keep(&mut self.store)?;
                self.entries.insert(key.into(), Entry { change, schema, at, len });
            }
        }
        Ok(())
    }

    fn schema_number(&mut self, schema: &str) -> u32 {
        let known = self.schemas.iter().position(|s| s == schema);
        known.unwrap_or_else(|| {
            self.schemas.push(schema.to_owned());
            self.schemas.len() - 1
        }) as u32
    }

    /// Decodes the row of an entry; [`LogRecords::decoded`] gives it. Answers its schema's number and its place in that batch.
    pub fn decode(&mut self, entry: &Entry) -> Result<(usize, usize)> {
        while let Some(schema) = self.schemas.get(self.decoders.len()) {
            self.decoders.push(RowDecoder::new(schema, self.table.with_meta().clone())?);
        }
        let number = entry.schema as usize;
        let decoder = self.decoders.get_mut(number).ok_or_else(|| Error::internal("a log record without a schema"))?;
        let place = decoder.len();
        self.store.with(entry.at, entry.len, |row| decoder.decode(row))?;
        Ok((number, place))
    }

    /// Encoded bytes of the rows decoded since the last [`LogRecords::decoded`].
    pub fn decoded_bytes(&self) -> usize {
        self.decoders.iter().map(RowDecoder::bytes).sum()
    }

    /// The rows decoded since the last call, a batch for each schema.
    pub fn decoded(&mut self) -> Result<Vec<RecordBatch>> {
        self.decoders.iter_mut().map(RowDecoder::finish).collect()
    }

    /// All entries that are left and no deletes, in the order in which their rows were kept.
    pub fn take_inserts(&mut self) -> Vec<Entry> {
        let mut left: Vec<Entry> = self.entries.drain().map(|(_, e)| e).filter(|e| !e.change.delete).collect();
        left.sort_unstable_by_key(|e| e.at);
        left
    }
}

fn schema_of(block: &LogBlock) -> Result<&str> {
    block.header(HeaderKey::Schema).ok_or_else(|| Error::corrupt("a block of rows without their schema"))
}
