//! Rows of the archive of layout 2 as Parquet, as Java's Avro writer lays them out.

use crate::error::{Error, Result};
use crate::format::plan::lsm_schema;
use crate::storage::ObjectWriter;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, GzipLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::sync::Arc;

/// Bytes of rows after which they are written.
const BATCH_BYTES: usize = 16 << 20;
/// Rows read at once.
const BATCH_ROWS: usize = 64;
/// The version of a row.
const VERSION: i32 = 1;
const ROOT: &str = "org.apache.hudi.avro.model.HoodieLSMTimelineInstant";

/// One archived instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its time.
    pub time: String,
    /// When it completed.
    pub completion: Option<String>,
    /// Its completed action.
    pub action: String,
    /// The bytes of its completed file.
    pub metadata: Option<Bytes>,
    /// The bytes of its plan.
    pub plan: Option<Bytes>,
}

/// Writes rows to a file.
pub struct RowWriter {
    writer: ArrowWriter<Counted>,
    schema: Arc<Schema>,
    rows: Vec<Row>,
    bytes: usize,
}

/// Lets the object be finished after the Parquet writer has let go of it.
struct Counted {
    out: Box<dyn ObjectWriter>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl RowWriter {
    /// Onto a new object.
    pub fn new(out: Box<dyn ObjectWriter>) -> Result<RowWriter> {
        let field = |name: &str, of: DataType| Field::new(name, of, true);
        let schema = Arc::new(Schema::new(vec![
            field("instantTime", DataType::Utf8),
            field("completionTime", DataType::Utf8),
            field("action", DataType::Utf8),
            field("metadata", DataType::Binary),
            field("plan", DataType::Binary),
            Field::new("version", DataType::Int32, false),
        ]));
        let avro = KeyValue::new("parquet.avro.schema".to_owned(), lsm_schema()?.to_owned());
        let model = KeyValue::new("writer.model.name".to_owned(), "avro".to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(GzipLevel::default()))
            .set_key_value_metadata(Some(vec![avro, model]))
            .build();
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true)
            .with_schema_root(ROOT.to_owned());
        let writer = ArrowWriter::try_new_with_options(Counted { out }, schema.clone(), options).map_err(failed)?;
        Ok(RowWriter { writer, schema, rows: Vec::new(), bytes: 0 })
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += row.metadata.as_ref().map_or(0, Bytes::len) + row.plan.as_ref().map_or(0, Bytes::len);
        self.rows.push(row);
        if self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Ends the file; its length in bytes.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        let counted = self.writer.into_inner().map_err(failed)?;
        Ok(counted.out.finish()?.size)
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let texts = |of: fn(&Row) -> Option<&str>| Arc::new(rows.iter().map(of).collect::<StringArray>()) as ArrayRef;
        let bytes = |of: fn(&Row) -> Option<&[u8]>| Arc::new(rows.iter().map(of).collect::<BinaryArray>()) as ArrayRef;
        let columns = vec![
            texts(|r| Some(&r.time)),
            texts(|r| r.completion.as_deref()),
            texts(|r| Some(&r.action)),
            bytes(|r| r.metadata.as_deref()),
            bytes(|r| r.plan.as_deref()),
            Arc::new(Int32Array::from(vec![VERSION; rows.len()])) as ArrayRef,
        ];
        let batch = RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|e| Error::internal(format!("archived instants as rows: {e}")).with_source(e))?;
        self.writer.write(&batch).and_then(|()| self.writer.flush()).map_err(failed)
    }
}

fn failed(error: ParquetError) -> Error {
    Error::io("a file of the archived timeline", std::io::Error::other(error))
}

/// The rows of a file, by whoever wrote it.
pub fn read_rows(bytes: Bytes) -> Result<impl Iterator<Item = Result<Row>>> {
    let bad = |e: ParquetError| Error::corrupt(format!("cannot be read as Parquet: {e}")).with_source(e);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(bad)?;
    let batches = reader.with_batch_size(BATCH_ROWS).build().map_err(bad)?;
    Ok(batches.flat_map(|batch| match batch {
        Err(e) => vec![Err(Error::corrupt(format!("cannot be read as Parquet: {e}")).with_source(e))],
        Ok(batch) => match rows_of(&batch) {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(e) => vec![Err(e)],
        },
    }))
}

fn rows_of(batch: &RecordBatch) -> Result<Vec<Row>> {
    let column = |name: &str| {
        batch.column_by_name(name).ok_or_else(|| Error::corrupt(format!("archived instants have no column {name}")))
    };
    let odd = |name: &str| Error::corrupt(format!("column {name} of archived instants is of another type"));
    let texts = |name: &'static str| column(name)?.as_string_opt::<i32>().ok_or_else(|| odd(name));
    let bytes = |name: &'static str| column(name)?.as_binary_opt::<i32>().ok_or_else(|| odd(name));
    let (times, completions, actions) = (texts("instantTime")?, texts("completionTime")?, texts("action")?);
    let (metadata, plans) = (bytes("metadata")?, bytes("plan")?);
    let text = |of: &StringArray, row| (!of.is_null(row)).then(|| of.value(row).to_owned());
    let copied = |of: &BinaryArray, row| (!of.is_null(row)).then(|| Bytes::copy_from_slice(of.value(row)));
    let rows = (0..batch.num_rows()).map(|row| {
        let lacks = || Error::corrupt("an archived instant without a time or an action");
        Ok(Row {
            time: text(times, row).ok_or_else(lacks)?,
            completion: text(completions, row),
            action: text(actions, row).ok_or_else(lacks)?,
            metadata: copied(metadata, row),
            plan: copied(plans, row),
        })
    });
    rows.collect()
}
