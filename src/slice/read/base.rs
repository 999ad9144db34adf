//! Rows of a Parquet file: of a base file, or of a log block that is one.
//!
//! The Parquet library panics over some damaged files. Such a file is `Corrupt` here, and its reader is not used again.

use crate::error::{Error, Result};
use crate::record::TableSchema;
use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// The rows of a file, as the file has them: only columns that the table has are decoded.
pub(super) fn batches<R: ChunkReader + Send + 'static>(
    file: R,
    table: &TableSchema,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<R>> {
    guarded(|| open(file, table)).map(Guarded)
}

fn open<R: ChunkReader + Send + 'static>(file: R, table: &TableSchema) -> Result<ParquetRecordBatchReader> {
    // What Arrow writers say of their own types is left aside: columns are brought to the table's anyway.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options).map_err(failed)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let wanted = |name: &str| table.with_meta().column_with_name(name).is_some();
    let fields = builder.parquet_schema().root_schema().get_fields().iter().enumerate();
    let roots: Vec<usize> = fields.filter(|(_, f)| wanted(f.name())).map(|(i, _)| i).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(failed)
}

/// Batches up to the first panic.
struct Guarded(ParquetRecordBatchReader);

impl Iterator for Guarded {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = guarded(|| match self.0.next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(e)) => Err(external(e)),
        });
        next.transpose()
    }
}

fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::corrupt("the file is damaged: the Parquet library gave up on it")))
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
