//! Parquet files.

use super::{BATCH_ROWS, Source, unreadable, wrong};
use crate::error::{Error, ErrorKind, Result};
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;
use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use ::parquet::file::reader::ChunkReader;
use std::io::Read;

struct Parquet {
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    rows: u64,
}

pub(super) fn open(mut body: Box<dyn Read + Send>) -> Result<Box<dyn Source>> {
    let aside = |e: std::io::Error| {
        Error::new(ErrorKind::Unavailable, format!("the body could not be set aside in a temporary file: {e}"))
            .with_hint("free space in the temporary directory (TMPDIR)")
            .with_source(e)
    };
    let mut file = tempfile::tempfile().map_err(aside)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        let len = body.read(&mut piece).map_err(unreadable)?;
        if len == 0 {
            break;
        }
        std::io::Write::write_all(&mut file, piece.get(..len).unwrap_or_default()).map_err(aside)?;
    }
    open_file(file)
}

/// A file that can be read in place.
pub(super) fn open_file(file: impl ChunkReader + 'static) -> Result<Box<dyn Source>> {
    // What Parquet itself says of the columns counts, not what a writer noted for itself.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|e| wrong("the body is no Parquet file, or is cut off", &e))?;
    let schema = builder.schema().clone();
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong("the body's Parquet file", &e))?;
    Ok(Box::new(Parquet { reader, schema, rows: 0 }))
}

impl Source for Parquet {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.reader.next() else { return Ok(None) };
        let batch = batch.map_err(|e| wrong(format_args!("row {} or after", self.rows), &e))?;
        self.rows += batch.num_rows() as u64;
        Ok(Some(batch))
    }
}
