//! [`BaseWriter`]: a new base file, written row by row.
//!
//! Columns whose value all rows of the file share (commit time, partition, file name) are encoded once for each number of rows
//! that a row group has. Whether a dictionary pays is told by the first rows. Nothing of the file is visible before
//! [`BaseWriter::finish`]. Format: docs/format.md, "Base files".

#[cfg(test)]
mod tests;

use super::encode::{Constant, Encoder, base_properties, broken, hardly_repeats};
use super::footer::KeySummary;
use super::sink::Sink;
use super::{BaseOptions, NewBase, WrittenFile, statistics};
use crate::error::{Error, Result};
use crate::format::commit::{RuntimeStats, WriteStat};
use crate::record::{Keyed, TableSchema};
use crate::storage::{Storage, TablePath};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StringBuilder};
use parquet::arrow::arrow_writer::ArrowColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

/// Where the meta columns stand.
const COMMIT_TIME: usize = 0;
const SEQUENCE: usize = 1;
const KEY: usize = 2;
const PARTITION: usize = 3;
const FILE_NAME: usize = 4;
const META: usize = 5;

/// A base file that is being written. Dropped before it is finished, nothing remains of it.
pub struct BaseWriter {
    target: NewBase,
    path: TablePath,
    schema: TableSchema,
    options: BaseOptions,
    sink: Sink,
    file: Option<Output>,
    group: Option<Group>,
    rows: u64,
    summary: KeySummary,
    keys: Vec<String>,
    started: Instant,
}

/// The file's Parquet side, which begins with the first rows.
struct Output {
    writer: SerializedFileWriter<Sink>,
    encoder: Encoder,
    constants: HashMap<(usize, usize), Constant>,
}

/// The row group that is being filled.
struct Group {
    writers: Vec<Option<ArrowColumnWriter>>,
    rows: usize,
    /// Commit time and partition are this write's; else they are in the rows.
    is_new: bool,
}

impl BaseWriter {
    /// Starts the file. `AlreadyExists` if there is one of that name.
    pub fn create(
        storage: &dyn Storage,
        target: &NewBase,
        schema: &TableSchema,
        options: &BaseOptions,
    ) -> Result<BaseWriter> {
        let path = target.path()?;
        let sink = Sink::new(storage.create_writer(&path).map_err(|e| e.context(&path))?);
        Ok(BaseWriter {
            target: target.clone(),
            path,
            schema: schema.clone(),
            options: options.clone(),
            sink,
            file: None,
            group: None,
            rows: 0,
            summary: KeySummary::empty(options)?,
            keys: Vec::new(),
            started: Instant::now(),
        })
    }

    /// Adds rows as new ones of this instant. Rows must be of the target's partition, and none may be a delete.
    pub fn write(&mut self, rows: &Keyed) -> Result<()> {
        if rows.rows.schema_ref() != self.schema.arrow() {
            return Err(Error::internal(format!("{}: rows of another schema", self.path)));
        }
        if rows.deletes.as_ref().is_some_and(|d| d.true_count() > 0) {
            return Err(Error::internal(format!("{}: a delete among new rows", self.path)));
        }
        self.open(rows.rows.columns())?;
        self.summary.add(&rows.keys);
        if self.options.tell_keys {
            self.keys.extend(rows.keys.iter().flatten().map(str::to_owned));
        }
        let mut done = 0;
        while done < rows.keys.len() {
            let step = self.room(true)?.min(rows.keys.len() - done);
            let sequence = self.sequence(step)?;
            let keys: ArrayRef = Arc::new(rows.keys.slice(done, step));
            self.put(SEQUENCE, &sequence)?;
            self.put(KEY, &keys)?;
            for (index, column) in rows.rows.columns().iter().enumerate() {
                self.put(META + index, &column.slice(done, step))?;
            }
            self.advance(step)?;
            done += step;
        }
        Ok(())
    }

    /// Adds rows that have their meta columns already ([`TableSchema::with_meta`]); only the file's name is put in. For
    /// compaction.
    pub fn write_with_meta(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.schema_ref() != self.schema.with_meta() {
            return Err(Error::internal(format!("{}: rows of another schema", self.path)));
        }
        self.open(rows.columns().get(META..).unwrap_or_default())?;
        let keys: &StringArray = rows.column(KEY).as_string();
        self.summary.add(keys);
        if self.options.tell_keys {
            self.keys.extend(keys.iter().flatten().map(str::to_owned));
        }
        let mut done = 0;
        while done < rows.num_rows() {
            let step = self.room(false)?.min(rows.num_rows() - done);
            for (index, column) in rows.columns().iter().enumerate().filter(|(index, _)| *index != FILE_NAME) {
                self.put(index, &column.slice(done, step))?;
            }
            self.advance(step)?;
            done += step;
        }
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the file so far, estimated.
    pub fn size(&self) -> u64 {
        let written = self.file.as_ref().map_or(0, |f| f.writer.bytes_written());
        let open = self.group.iter().flat_map(|g| g.writers.iter().flatten());
        (written + open.map(ArrowColumnWriter::get_estimated_total_bytes).sum::<usize>()) as u64
    }

    /// Finishes the file: durable and visible under its name.
    pub fn finish(mut self) -> Result<WrittenFile> {
        self.open(&[])?;
        self.close_group()?;
        let Some(mut file) = self.file.take() else { return Err(Error::internal("a file was never opened")) };
        for entry in self.summary.entries(self.schema.avro_with_meta()) {
            file.writer.append_key_value_metadata(entry);
        }
        let metadata = file.writer.finish().map_err(broken)?;
        drop(file);
        let stored = self.sink.finish().map_err(|e| e.context(&self.path))?;
        let runtime = RuntimeStats { create_ms: self.started.elapsed().as_millis() as u64, ..RuntimeStats::default() };
        Ok(WrittenFile {
            columns: if self.options.column_ranges { statistics::of_file(&metadata, false) } else { Vec::new() },
            stat: WriteStat {
                num_inserts: self.rows,
                runtime: Some(runtime),
                ..self.target.stat(&self.path, self.rows, stored.size)
            },
            partition: self.target.partition,
            keys_added: self.keys,
            keys_removed: Vec::new(),
        })
    }

    /// Begins the Parquet file; `columns` are the first rows' user columns, if there are any.
    fn open(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let properties = properties(&self.schema, columns, &self.options);
        let root = self.schema.parquet().root_schema_ptr();
        let writer = SerializedFileWriter::new(self.sink.clone(), root, Arc::new(properties)).map_err(broken)?;
        let encoder = Encoder::new(&writer, self.schema.with_meta().clone())?;
        self.file = Some(Output { writer, encoder, constants: HashMap::new() });
        Ok(())
    }

    /// Rows that the open row group still takes; a new one is begun where it takes none, or holds rows of the other kind.
    fn room(&mut self, is_new: bool) -> Result<usize> {
        let is_full = |group: &Group, options: &BaseOptions| {
            let bytes = || group.writers.iter().flatten().map(ArrowColumnWriter::memory_size).sum::<usize>();
            group.is_new != is_new || group.rows >= options.row_group_rows || bytes() >= options.row_group_bytes
        };
        if self.group.as_ref().is_some_and(|g| is_full(g, &self.options)) {
            self.close_group()?;
        }
        let file = self.file.as_ref().ok_or_else(|| Error::internal("rows before the file was opened"))?;
        let group = match &mut self.group {
            Some(group) => group,
            none => none.insert(Group { writers: file.encoder.start()?, rows: 0, is_new }),
        };
        Ok(self.options.row_group_rows.saturating_sub(group.rows).max(1))
    }

    fn put(&mut self, column: usize, values: &ArrayRef) -> Result<()> {
        let (Some(file), Some(group)) = (&self.file, &mut self.group) else {
            return Err(Error::internal("rows before a row group was begun"));
        };
        file.encoder.write(&mut group.writers, column, values)
    }

    fn advance(&mut self, rows: usize) -> Result<()> {
        let group = self.group.as_mut().ok_or_else(|| Error::internal("rows before a row group was begun"))?;
        group.rows += rows;
        self.rows += rows as u64;
        Ok(())
    }

    /// `{instant}_{task}_{number}` of the next rows.
    fn sequence(&self, rows: usize) -> Result<ArrayRef> {
        Ok(Arc::new(self.target.sequence(self.rows, rows)))
    }

    fn close_group(&mut self) -> Result<()> {
        let (Some(file), Some(group)) = (&mut self.file, self.group.take()) else { return Ok(()) };
        let commit_time = self.target.instant.to_string();
        let file_name = self.target.file_name();
        let mut constants: Vec<(usize, &str)> = vec![(FILE_NAME, &file_name)];
        if group.is_new {
            constants.extend([(COMMIT_TIME, commit_time.as_str()), (PARTITION, self.target.partition.as_str())]);
        }
        for (column, value) in &constants {
            if let Entry::Vacant(none) = file.constants.entry((*column, group.rows)) {
                let fields = self.schema.parquet().root_schema().get_fields();
                let field = fields.get(*column).ok_or_else(|| Error::internal("a meta column out of range"))?;
                none.insert(Constant::encode(field, value, group.rows, &self.options)?);
            }
        }
        let mut row_group = file.writer.next_row_group().map_err(broken)?;
        // Meta columns are leaves of their own, so that a leaf's place is its column's.
        for (leaf, writer) in group.writers.into_iter().enumerate() {
            if constants.iter().any(|(column, _)| *column == leaf) {
                let constant = file.constants.get(&(leaf, group.rows));
                constant.ok_or_else(|| Error::internal("a constant was not encoded"))?.append(&mut row_group)?;
            } else {
                let writer = writer.ok_or_else(|| Error::internal("a column without a writer"))?;
                writer.close().and_then(|chunk| chunk.append_to_row_group(&mut row_group)).map_err(broken)?;
            }
        }
        row_group.close().map_err(broken)?;
        Ok(())
    }
}

impl NewBase {
    /// The file's path in the table.
    pub fn path(&self) -> Result<TablePath> {
        TablePath::parse(&self.partition)?.join(&self.file_name())
    }

    /// Sequence numbers of `rows` rows, `first` rows after the file's first.
    pub(super) fn sequence(&self, first: u64, rows: usize) -> StringArray {
        let mut text = format!("{}_{}_", self.instant, self.task);
        let prefix = text.len();
        let mut builder = StringBuilder::with_capacity(rows, rows * (prefix + 7));
        for row in first..first + rows as u64 {
            use std::fmt::Write as _;
            text.truncate(prefix);
            let _ = write!(text, "{row}");
            builder.append_value(&text);
        }
        builder.finish()
    }

    /// What a commit says of the finished file, counts of changes left out.
    pub(super) fn stat(&self, path: &TablePath, rows: u64, size: u64) -> WriteStat {
        WriteStat {
            file_id: self.file_id.clone(),
            path: Some(path.as_str().to_owned()),
            size: Some(size),
            records: Some(rows),
            total_write_bytes: size,
            partition_path: Some(self.partition.clone()),
            ..WriteStat::default()
        }
    }
}

/// The properties of a file, with dictionaries off where the first rows show that they do not pay.
pub(super) fn properties(schema: &TableSchema, columns: &[ArrayRef], options: &BaseOptions) -> WriterProperties {
    let mut builder = base_properties(options);
    let descriptor = schema.parquet();
    for leaf in (0..descriptor.num_columns()).map(|leaf| descriptor.column(leaf)) {
        let [name] = leaf.path().parts() else { continue };
        let unique = match schema.with_meta().index_of(name) {
            Ok(SEQUENCE | KEY) => true,
            Ok(index) if index >= META => columns.get(index - META).is_some_and(|c| hardly_repeats(c)),
            _ => false,
        };
        if unique {
            builder = builder.set_column_dictionary_enabled(leaf.path().clone(), false);
        }
    }
    builder.build()
}

impl std::fmt::Debug for BaseWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BaseWriter").field("path", &self.path).field("rows", &self.rows).finish_non_exhaustive()
    }
}
