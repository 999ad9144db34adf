//! The new base file, put together of copied and encoded column chunks.

use super::super::encode::{
    Constant, Encoder, Placed, base_properties, broken, close_result, hardly_repeats, leaves_of,
};
use super::super::footer::KeySummary;
use super::super::sink::Sink;
use super::super::{BaseOptions, NewBase, WrittenFile, statistics};
use super::columns::Columns;
use super::group::{EncodedGroup, Piece};
use super::matches::OldFile;
use crate::error::{Error, Result};
use crate::format::commit::{RuntimeStats, WriteStat};
use crate::record::{META_COLUMNS, TableSchema};
use crate::storage::{Storage, TablePath};
use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

const SEQUENCE: &str = META_COLUMNS[1];
const KEY: &str = META_COLUMNS[2];
/// Where the file's name stands.
const FILE_NAME: usize = 4;
/// Rows that are looked at to tell whether dictionaries pay.
const SAMPLE_ROWS: usize = 2048;

/// The new file.
pub(super) struct Output<'m> {
    old: &'m OldFile,
    columns: &'m Columns,
    options: &'m BaseOptions,
    target: &'m NewBase,
    path: TablePath,
    sink: Sink,
    writer: SerializedFileWriter<Sink>,
    /// The leaves of each column of the old file.
    old_leaves: Vec<Range<usize>>,
    /// Chunks of the file's name, by their rows.
    names: HashMap<usize, Constant>,
    rows: u64,
}

/// Chunks of one row group of the old file.
struct Copied {
    bytes: Bytes,
    at: u64,
}

impl<'m> Output<'m> {
    /// Starts the file. With `is_made`, row groups will be encoded, for which it is found out where dictionaries pay.
    pub fn create(
        storage: &dyn Storage,
        target: &'m NewBase,
        old: &'m OldFile,
        columns: &'m Columns,
        options: &'m BaseOptions,
        is_made: bool,
    ) -> Result<Output<'m>> {
        let path = target.path()?;
        let properties = Arc::new(properties(old, columns, options, is_made)?);
        let sink = Sink::new(storage.create_writer(&path).map_err(|e| e.context(&path))?);
        let root = columns.parquet.root_schema_ptr();
        let writer = SerializedFileWriter::new(sink.clone(), root, properties).map_err(broken)?;
        let descriptor = old.metadata.metadata().file_metadata().schema_descr();
        let old_leaves = leaves_of(descriptor, descriptor.root_schema().get_fields().len())?;
        Ok(Output { old, columns, options, target, path, sink, writer, old_leaves, names: HashMap::new(), rows: 0 })
    }

    /// What encodes row groups of the file.
    pub fn encoder(&self, columns: &Columns) -> Result<Encoder> {
        Encoder::new(&self.writer, columns.arrow.clone())
    }

    /// Copies a row group, but for the file's name.
    pub fn copy(&mut self, group: usize, rows: usize) -> Result<()> {
        let columns = (0..self.columns.sources.len())
            .map(|column| if column == FILE_NAME { Piece::FileName } else { Piece::Copied(group) })
            .collect();
        self.put(EncodedGroup { rows, columns })
    }

    /// Adds a row group; one without rows is left out.
    pub fn put(&mut self, group: EncodedGroup) -> Result<()> {
        if group.rows == 0 {
            return Ok(());
        }
        self.encode_name(group.rows)?;
        let Output { writer, old, columns, old_leaves, names, .. } = self;
        let copied = copied_bytes(old, columns, old_leaves, &group)?;
        let mut into = writer.next_row_group().map_err(broken)?;
        for (piece, source) in group.columns.into_iter().zip(&columns.sources) {
            match piece {
                Piece::FileName => {
                    let name = names.get(&group.rows).ok_or_else(|| Error::internal("a name was not encoded"))?;
                    name.append(&mut into)?;
                }
                Piece::Encoded(chunks) => {
                    for chunk in chunks {
                        chunk.append_to_row_group(&mut into).map_err(broken)?;
                    }
                }
                Piece::Copied(number) => {
                    for leaf in leaves(old_leaves, source.old)? {
                        copy_chunk(old, number, leaf, copied.as_ref(), &mut into)?;
                    }
                }
            }
        }
        into.close().map_err(broken)?;
        self.rows += group.rows as u64;
        Ok(())
    }

    fn encode_name(&mut self, rows: usize) -> Result<()> {
        if self.names.contains_key(&rows) {
            return Ok(());
        }
        let fields = self.columns.parquet.root_schema().get_fields();
        let field = fields.get(FILE_NAME).ok_or_else(|| Error::internal("a meta column out of range"))?;
        let name = Constant::encode(field, &self.target.file_name(), rows, self.options)?;
        self.names.insert(rows, name);
        Ok(())
    }

    /// Ends the file: durable and visible under its name. Counts of changes are the caller's.
    pub fn finish(self, keys: &KeySummary, schema: &TableSchema, started: Instant) -> Result<WrittenFile> {
        let Output { mut writer, sink, target, path, options, rows, old, .. } = self;
        for entry in keys.entries(schema.avro_with_meta()) {
            writer.append_key_value_metadata(entry);
        }
        let metadata = writer.finish().map_err(broken)?;
        drop(writer);
        let stored = sink.finish().map_err(|e| e.context(&path))?;
        let is_javas =
            old.metadata.metadata().file_metadata().created_by().is_some_and(|c| c.starts_with("parquet-mr"));
        let runtime = RuntimeStats { upsert_ms: started.elapsed().as_millis() as u64, ..RuntimeStats::default() };
        Ok(WrittenFile {
            partition: target.partition.clone(),
            stat: WriteStat { runtime: Some(runtime), ..target.stat(&path, rows, stored.size) },
            columns: if options.column_ranges { statistics::of_file(&metadata, is_javas) } else { Vec::new() },
            keys_added: Vec::new(),
            keys_removed: Vec::new(),
        })
    }
}

fn leaves(old_leaves: &[Range<usize>], root: Option<usize>) -> Result<Range<usize>> {
    let range = root.and_then(|root| old_leaves.get(root)).cloned();
    range.ok_or_else(|| Error::internal("a column is copied that the file does not have"))
}

/// The bytes from the first to the last chunk that is copied, where they lie close together: one read instead of one a column.
fn copied_bytes(
    old: &OldFile,
    columns: &Columns,
    old_leaves: &[Range<usize>],
    group: &EncodedGroup,
) -> Result<Option<Copied>> {
    let (mut start, mut end, mut sum) = (u64::MAX, 0, 0);
    for (piece, source) in group.columns.iter().zip(&columns.sources) {
        let Piece::Copied(number) = piece else { continue };
        for leaf in leaves(old_leaves, source.old)? {
            let (at, len) = place(&chunk(old, *number, leaf)?)?;
            (start, end, sum) = (start.min(at), end.max(at.saturating_add(len)), sum + len);
        }
    }
    let span = end.saturating_sub(start);
    if sum == 0 || span > sum.saturating_add(sum / 4) {
        return Ok(None);
    }
    Ok(Some(Copied { bytes: old.file.read(start, span)?, at: start }))
}

fn copy_chunk(
    old: &OldFile,
    group: usize,
    leaf: usize,
    copied: Option<&Copied>,
    into: &mut SerializedRowGroupWriter<'_, Sink>,
) -> Result<()> {
    let close = chunk(old, group, leaf)?;
    let (at, len) = place(&close)?;
    let bytes = match copied {
        Some(copied) => {
            let from = usize::try_from(at - copied.at).unwrap_or(usize::MAX);
            let range = from..from.saturating_add(len as usize);
            let inside = range.end <= copied.bytes.len();
            if inside { copied.bytes.slice(range) } else { return Err(Error::internal("a chunk out of range")) }
        }
        None => old.file.read(at, len)?,
    };
    into.append_column(&Placed { bytes, at }, close).map_err(broken)
}

/// A chunk of the old file. Old writers put 0 where there is no dictionary.
fn chunk(old: &OldFile, group: usize, leaf: usize) -> Result<ColumnCloseResult> {
    let mut close = close_result(old.metadata.metadata(), group, leaf)?;
    let data = close.metadata.data_page_offset();
    if close.metadata.dictionary_page_offset().is_some_and(|d| d <= 0 || d >= data) {
        let builder = close.metadata.into_builder().set_dictionary_page_offset(None);
        close.metadata = builder.build().map_err(broken)?;
    }
    Ok(close)
}

/// Where a chunk lies, and its bytes.
fn place(close: &ColumnCloseResult) -> Result<(u64, u64)> {
    let at = close.metadata.dictionary_page_offset().unwrap_or_else(|| close.metadata.data_page_offset());
    let place = u64::try_from(at).ok().zip(u64::try_from(close.metadata.compressed_size()).ok());
    place.ok_or_else(|| Error::corrupt("a column chunk at a negative place"))
}

/// Dictionaries are left out where the file has none, and where its first rows show that they do not pay.
fn properties(
    old: &OldFile,
    columns: &Columns,
    options: &BaseOptions,
    is_made: bool,
) -> Result<parquet::file::properties::WriterProperties> {
    let mut builder = base_properties(options);
    let sample = if is_made { sample(old, columns)? } else { None };
    let first = old.metadata.metadata().row_groups().first();
    for leaf in (0..columns.parquet.num_columns()).map(|leaf| columns.parquet.column(leaf)) {
        let [name] = leaf.path().parts() else { continue };
        let held = first.and_then(|g| g.columns().iter().find(|c| c.column_path().parts() == [name.as_str()]));
        let has_none = held.is_some_and(|c| c.dictionary_page_offset().is_none_or(|d| d <= 0));
        let seen = sample.as_ref().and_then(|s| s.column_by_name(name));
        let new = columns.arrow.index_of(name).ok().and_then(|index| columns.incoming.get(index));
        let is_unique = match (seen, held) {
            _ if name == SEQUENCE || name == KEY => true,
            (Some(values), _) => has_none || hardly_repeats(values),
            (None, Some(_)) => has_none,
            (None, None) => new.is_some_and(|values| hardly_repeats(values)),
        };
        if is_unique {
            builder = builder.set_column_dictionary_enabled(leaf.path().clone(), false);
        }
    }
    Ok(builder.build())
}

/// The first rows of the old file, without lists and maps.
fn sample(old: &OldFile, columns: &Columns) -> Result<Option<RecordBatch>> {
    let group = old.metadata.metadata().row_groups().iter().position(|g| g.num_rows() > 0);
    let Some(group) = group else { return Ok(None) };
    let sources = columns.sources.iter().zip(columns.arrow.fields()).enumerate();
    let roots = sources.filter(|(column, (_, field))| *column > FILE_NAME && !field.data_type().is_nested());
    let roots: Vec<usize> = roots.filter_map(|(_, (source, _))| source.old).collect();
    match old.rows(group, roots, SAMPLE_ROWS)?.next() {
        None => Ok(None),
        Some(batch) => batch.map(Some).map_err(|e| old.failed(e)),
    }
}

impl KeySummary {
    /// Of the old file's keys: by its footer, else by its rows. Keys that are deleted stay in: what the filter and the range
    /// promise is that no key is missed.
    pub(super) fn of_file(old: &OldFile, options: &BaseOptions) -> Result<KeySummary> {
        let file = old.metadata.metadata().file_metadata();
        let entries = file.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
        let held = u64::try_from(file.num_rows()).unwrap_or(0);
        if let Some(summary) = KeySummary::of_footer(entries, held, options) {
            return Ok(summary);
        }
        let mut summary = KeySummary::empty(options)?;
        let root = old.metadata.schema().index_of(KEY);
        let root = root.map_err(|_| Error::corrupt(format!("{}: has no column {KEY}", old.file.name())))?;
        for group in 0..old.metadata.metadata().num_row_groups() {
            for batch in old.rows(group, vec![root], SAMPLE_ROWS * 8)? {
                let batch = batch.map_err(|e| old.failed(e))?;
                let keys =
                    batch.column_by_name(KEY).map(|c| arrow::compute::cast(c, &arrow::datatypes::DataType::Utf8));
                let keys = keys.and_then(|k| k.ok()).ok_or_else(|| Error::corrupt("keys are no text"))?;
                summary.add(arrow::array::AsArray::as_string::<i32>(&keys));
            }
        }
        Ok(summary)
    }
}
