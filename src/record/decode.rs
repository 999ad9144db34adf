//! Request bodies as batches: Arrow IPC streams, Parquet, NDJSON, CSV.
//!
//! Everything streams: memory is bounded by one batch, whatever the body's length. Parquet needs a file to seek in, so that
//! it is taken from a temporary one. What is wrong with a body is `Invalid` and names the row and column.

use super::TableSchema;
use crate::error::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::io::Read;
use std::str::FromStr;

/// How rows are written in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFormat {
    /// An Arrow IPC stream: `application/vnd.apache.arrow.stream`.
    ArrowStream,
    /// A Parquet file: `application/vnd.apache.parquet`.
    Parquet,
    /// One JSON object a line: `application/x-ndjson`.
    NdJson,
    /// Comma-separated values with a header line: `text/csv`.
    Csv,
}

impl BodyFormat {
    /// By the media type of a request; parameters are passed over. `Unsupported` names those that are known.
    pub fn of_media_type(_media_type: &str) -> Result<BodyFormat> {
        Err(Error::internal("not written yet"))
    }

    /// By a file's extension, as of `trips.csv`; `None` for what is not known.
    pub fn of_file_name(_name: &str) -> Option<BodyFormat> {
        None
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            BodyFormat::ArrowStream => "application/vnd.apache.arrow.stream",
            BodyFormat::Parquet => "application/vnd.apache.parquet",
            BodyFormat::NdJson => "application/x-ndjson",
            BodyFormat::Csv => "text/csv",
        }
    }
}

impl FromStr for BodyFormat {
    type Err = Error;

    fn from_str(_text: &str) -> Result<Self> {
        Err(Error::internal("not written yet"))
    }
}

/// The rows of a body, batch by batch. All batches have one schema.
pub struct Rows {}

impl Rows {
    /// Starts reading. Where `table` is known, text is read as its columns' types; else types are guessed from the first rows.
    pub fn read(_format: BodyFormat, _body: Box<dyn Read + Send>, _table: Option<&TableSchema>) -> Result<Rows> {
        Err(Error::internal("not written yet"))
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        unreachable!()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}
