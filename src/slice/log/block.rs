//! [`Rows`]: the data block that is being put together.

use super::LogFormat;
use crate::error::{Error, Result};
use crate::format::log::{AvroContent, BlockKind};
use crate::record::TableSchema;
use crate::record::avro::RowEncoder;
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// Rows of a Parquet block that are handed over at a time.
const PARQUET_ROWS: usize = 1024;

/// Rows on their way into a block.
pub(super) enum Rows {
    Avro { encoder: RowEncoder, content: AvroContent },
    Parquet { schema: TableSchema, writer: Option<Box<ArrowWriter<Vec<u8>>>> },
}

impl Rows {
    pub fn new(format: LogFormat, schema: &TableSchema) -> Result<Rows> {
        Ok(match format {
            LogFormat::Avro => Rows::Avro {
                encoder: RowEncoder::new(schema.with_meta(), schema.avro_with_meta())?,
                content: AvroContent::default(),
            },
            LogFormat::Parquet => Rows::Parquet { schema: schema.clone(), writer: None },
        })
    }

    /// Takes rows of a batch from a place on, until the block is full; answers how many.
    pub fn take(&mut self, batch: &RecordBatch, from: usize, full: usize) -> Result<usize> {
        match self {
            Rows::Avro { encoder, content } => {
                let rows = encoder.rows(batch)?;
                let mut row = from;
                while row < rows.len() && (content.len() < full || row == from) {
                    content.push(|out| rows.write(row, out))?;
                    row += 1;
                }
                Ok(row - from)
            }
            Rows::Parquet { schema, writer } => {
                let open = match writer.take() {
                    Some(open) => open,
                    None => Box::new(parquet_writer(schema)?),
                };
                let writer = writer.insert(open);
                let taken = PARQUET_ROWS.min(batch.num_rows() - from);
                writer.write(&batch.slice(from, taken)).map_err(failed)?;
                Ok(taken)
            }
        }
    }

    /// Bytes so far, of Parquet about.
    pub fn bytes(&self) -> usize {
        match self {
            Rows::Avro { content, .. } => content.len(),
            Rows::Parquet { writer, .. } => writer.as_ref().map_or(0, |w| w.bytes_written() + w.in_progress_size()),
        }
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        match self {
            Rows::Avro { content, .. } => content.is_empty(),
            Rows::Parquet { writer, .. } => writer.is_none(),
        }
    }

    /// The block's kind and content; without rows afterwards.
    pub fn finish(&mut self) -> Result<(BlockKind, Vec<u8>)> {
        match self {
            Rows::Avro { content, .. } => Ok((BlockKind::Avro, std::mem::take(content).finish())),
            Rows::Parquet { writer, .. } => {
                let writer = writer.take().ok_or_else(|| Error::internal("a block without rows"))?;
                Ok((BlockKind::Parquet, writer.into_inner().map_err(failed)?))
            }
        }
    }
}

fn parquet_writer(schema: &TableSchema) -> Result<ArrowWriter<Vec<u8>>> {
    let avro = KeyValue::new("parquet.avro.schema".to_owned(), schema.avro_with_meta().to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![avro]))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true)
        .with_parquet_schema(schema.parquet().as_ref().clone());
    ArrowWriter::try_new_with_options(Vec::new(), schema.with_meta().clone(), options).map_err(failed)
}

fn failed(error: parquet::errors::ParquetError) -> Error {
    Error::internal(format!("rows could not be written as parquet: {error}")).with_source(error)
}
