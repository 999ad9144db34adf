//! Rows of a Parquet file: of a base file, or of a log block that is one.

use crate::error::{Error, Result};
use crate::record::TableSchema;
use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// The rows of a file, as the file has them: only columns that the table has are decoded.
pub(super) fn batches<R: ChunkReader + Send + 'static>(
    file: R,
    table: &TableSchema,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<R>> {
    // What Arrow writers say of their own types is left aside: columns are brought to the table's anyway.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(failed)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let wanted = |name: &str| table.with_meta().column_with_name(name).is_some();
    let fields = builder.parquet_schema().root_schema().get_fields().iter().enumerate();
    let roots: Vec<usize> = fields.filter(|(_, f)| wanted(f.name())).map(|(i, _)| i).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(failed)?;
    Ok(reader.map(|batch| {
        batch.map_err(|e| match e {
            arrow::error::ArrowError::ParquetError(_) | arrow::error::ArrowError::ExternalError(_) => external(e),
            other => Error::corrupt(other.to_string()).with_source(other),
        })
    }))
}

/// The storage's own error where there is one inside.
fn external(error: arrow::error::ArrowError) -> Error {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = inner {
        if let Some(own) = cause.downcast_ref::<Error>() {
            return own.duplicate();
        }
        inner = cause.source();
    }
    Error::corrupt(error.to_string()).with_source(error)
}

fn failed(error: ParquetError) -> Error {
    external(error.into())
}
