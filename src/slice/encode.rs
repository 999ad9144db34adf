//! Encoding row groups: [`Encoder`] makes column chunks of Arrow columns, [`Constant`] of one value that all rows have.
//!
//! An encoder is shared by threads; the chunks are put into the file by whoever owns that.

mod stored;

use super::BaseOptions;
use super::sink::Sink;
use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{SchemaDescriptor, Type};
use std::ops::Range;
use std::sync::Arc;

/// Values of a constant column that are handed over at once.
const CONSTANT_STEP: usize = 4096;
/// Rows of a column that are looked at to tell whether a dictionary pays.
const SAMPLE_ROWS: usize = 2048;

/// Makes column chunks of Arrow columns.
pub(super) struct Encoder {
    factory: ArrowRowGroupWriterFactory,
    /// As it is stored: see [`stored`].
    schema: SchemaRef,
    /// The leaf columns of each column.
    leaves: Vec<Range<usize>>,
}

impl Encoder {
    /// For a file whose columns are `schema`'s.
    pub fn new(writer: &SerializedFileWriter<Sink>, schema: SchemaRef) -> Result<Encoder> {
        let leaves = leaves_of(writer.schema_descr(), schema.fields().len())?;
        let schema: SchemaRef = Arc::new(stored::schema(&schema, writer.schema_descr()));
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        Ok(Encoder { factory, schema, leaves })
    }

    /// The leaf columns of a column.
    pub fn leaves(&self, column: usize) -> Range<usize> {
        self.leaves.get(column).cloned().unwrap_or_default()
    }

    /// Writers of all leaf columns, for one row group.
    pub fn start(&self) -> Result<Vec<Option<ArrowColumnWriter>>> {
        Ok(self.factory.create_column_writers(0).map_err(broken)?.into_iter().map(Some).collect())
    }

    /// Adds values of one column to its writers among those of a row group.
    pub fn write(&self, writers: &mut [Option<ArrowColumnWriter>], column: usize, values: &ArrayRef) -> Result<()> {
        let field = self.schema.fields().get(column).ok_or_else(|| Error::internal("a column out of range"))?;
        let values = stored::convert(values, field.data_type())?;
        let leaves = compute_leaves(field, &values).map_err(broken)?;
        for (leaf, index) in leaves.iter().zip(self.leaves(column)) {
            let writer = writers.get_mut(index).and_then(Option::as_mut);
            writer.ok_or_else(|| Error::internal("a column without a writer"))?.write(leaf).map_err(broken)?;
        }
        Ok(())
    }

    /// One whole column of a row group, by its own writers among those of the row group.
    pub fn column(
        &self,
        writers: &mut [Option<ArrowColumnWriter>],
        column: usize,
        values: &ArrayRef,
    ) -> Result<Vec<ArrowColumnChunk>> {
        self.write(writers, column, values)?;
        let own = writers.get_mut(self.leaves(column)).unwrap_or_default().iter_mut();
        own.filter_map(Option::take).map(|w| w.close().map_err(broken)).collect()
    }
}

/// The leaf columns of each of a schema's columns.
pub(super) fn leaves_of(schema: &SchemaDescriptor, columns: usize) -> Result<Vec<Range<usize>>> {
    let mut leaves = vec![0..0; columns];
    for leaf in 0..schema.num_columns() {
        let range = leaves.get_mut(schema.get_column_root_idx(leaf));
        let range = range.ok_or_else(|| Error::internal("a Parquet column that is none of the table's"))?;
        *range = if range.end == range.start { leaf..leaf + 1 } else { range.start..leaf + 1 };
    }
    Ok(leaves)
}

/// A column chunk in which all rows have one text: encoded once for each number of rows, and put in as often as wanted.
pub(super) struct Constant {
    bytes: Bytes,
    close: ColumnCloseResult,
}

impl Constant {
    /// `column` is a text column of the file's schema.
    pub fn encode(column: &Arc<Type>, value: &str, rows: usize, options: &BaseOptions) -> Result<Constant> {
        let message = Type::group_type_builder("constant").with_fields(vec![column.clone()]).build().map_err(broken)?;
        let properties = Arc::new(base_properties(options).build());
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(message), properties).map_err(broken)?;
        let mut group = writer.next_row_group().map_err(broken)?;
        if let Some(mut leaf) = group.next_column().map_err(broken)? {
            let is_optional = leaf.typed::<ByteArrayType>().get_descriptor().max_def_level() > 0;
            let mut left = rows;
            while left > 0 {
                let step = left.min(CONSTANT_STEP);
                let values = vec![ByteArray::from(value); step];
                let levels = is_optional.then(|| vec![1_i16; step]);
                leaf.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None).map_err(broken)?;
                left -= step;
            }
            leaf.close().map_err(broken)?;
        }
        group.close().map_err(broken)?;
        let metadata = writer.finish().map_err(broken)?;
        let bytes = Bytes::from(std::mem::take(writer.inner_mut()));
        let close = close_result(&metadata, 0, 0)?;
        Ok(Constant { bytes, close })
    }

    /// Puts the chunk into a row group.
    pub fn append(&self, group: &mut SerializedRowGroupWriter<'_, Sink>) -> Result<()> {
        group.append_column(&self.bytes, self.close.clone()).map_err(broken)
    }
}

/// What is known of a column chunk that lies in a file already, for putting it into another one as it is.
pub(super) fn close_result(metadata: &ParquetMetaData, group: usize, leaf: usize) -> Result<ColumnCloseResult> {
    let rows = metadata.row_groups().get(group).ok_or_else(|| Error::internal("a row group out of range"))?;
    let chunk = rows.columns().get(leaf).ok_or_else(|| Error::internal("a column out of range"))?;
    let index = metadata.page_index();
    Ok(ColumnCloseResult {
        bytes_written: chunk.compressed_size().try_into().unwrap_or(0),
        rows_written: rows.num_rows().try_into().unwrap_or(0),
        metadata: chunk.clone(),
        bloom_filter: None,
        column_index: index.and_then(|i| i.column_index(group, leaf)).cloned(),
        offset_index: index.and_then(|i| i.offset_index(group, leaf)).cloned(),
    })
}

/// Bytes that stand at some place of a file.
pub(super) struct Placed {
    pub bytes: Bytes,
    pub at: u64,
}

impl Length for Placed {
    fn len(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl ChunkReader for Placed {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        use bytes::Buf;
        let from = start.checked_sub(self.at).and_then(|f| usize::try_from(f).ok()).filter(|f| *f <= self.bytes.len());
        let from = from.ok_or_else(|| ParquetError::EOF(format!("no bytes at {start}")))?;
        Ok(self.bytes.slice(from..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let from = start.checked_sub(self.at).and_then(|f| usize::try_from(f).ok());
        let range = from.and_then(|f| Some(f..f.checked_add(length)?)).filter(|r| r.end <= self.bytes.len());
        Ok(self.bytes.slice(range.ok_or_else(|| ParquetError::EOF(format!("no bytes at {start}")))?))
    }
}

/// What all files have: whole statistics, for the metadata table takes its ranges from them.
pub(super) fn base_properties(options: &BaseOptions) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(options.compression)
        .set_dictionary_enabled(options.dictionary)
        .set_data_page_size_limit(options.page_bytes)
        .set_statistics_truncate_length(None)
        // The form `application version number` is what Java tells damaged statistics of its own old writers by.
        .set_created_by(format!("hudifs version {}", env!("CARGO_PKG_VERSION")))
}

/// True for a column whose values hardly repeat. A dictionary of such values is pure loss in a row group of this size, and
/// the library notices only when the dictionary has become too large.
pub(super) fn hardly_repeats(values: &dyn Array) -> bool {
    use arrow::array::AsArray;
    use arrow::datatypes as types;
    use std::collections::HashSet;
    use types::DataType;
    let rows = values.len();
    if rows < 256 {
        return false;
    }
    let step = rows.div_ceil(SAMPLE_ROWS);
    let picked = (0..rows).step_by(step).filter(|row| values.is_valid(*row));
    macro_rules! distinct {
        ($ty:ty) => {{
            let values = values.as_primitive::<$ty>();
            let seen: Vec<u64> = picked.map(|row| values.value(row) as u64).collect();
            (seen.iter().collect::<HashSet<_>>().len(), seen.len())
        }};
    }
    let (distinct, seen) = match values.data_type() {
        DataType::Int32 => distinct!(types::Int32Type),
        DataType::Int64 => distinct!(types::Int64Type),
        DataType::Timestamp(types::TimeUnit::Microsecond, _) => distinct!(types::TimestampMicrosecondType),
        DataType::Timestamp(types::TimeUnit::Millisecond, _) => distinct!(types::TimestampMillisecondType),
        DataType::Float64 => {
            let values = values.as_primitive::<types::Float64Type>();
            let seen: Vec<u64> = picked.map(|row| values.value(row).to_bits()).collect();
            (seen.iter().collect::<HashSet<_>>().len(), seen.len())
        }
        DataType::Utf8 => {
            let values = values.as_string::<i32>();
            let seen: Vec<&str> = picked.map(|row| values.value(row)).collect();
            (seen.iter().collect::<HashSet<_>>().len(), seen.len())
        }
        _ => return false,
    };
    // With 50,000 values in a row group about 2 % of this many rows meet again.
    seen > 0 && distinct * 1000 >= seen * 985
}

/// Failures of encoding: our own mistake, unless the storage said something.
pub(super) fn broken(error: ParquetError) -> Error {
    match crate::record::parquet_file::failed("a base file", error) {
        e if e.kind() == crate::ErrorKind::Corrupt => Error::internal(format!("a base file could not be encoded: {e}")),
        e => e,
    }
}
