//! Request bodies as batches: Arrow IPC streams, Parquet, NDJSON, CSV.
//!
//! Everything streams: memory is bounded by one batch, whatever the body's length. Parquet needs a file to seek in, so that
//! it is taken from a temporary one. What is wrong with a body is `Invalid` and names the row and column.

use super::TableSchema;
use crate::error::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::io::Read;
use std::path::Path;
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
    /// Every format.
    pub const ALL: [BodyFormat; 4] =
        [BodyFormat::ArrowStream, BodyFormat::Parquet, BodyFormat::NdJson, BodyFormat::Csv];

    /// By the media type of a request; parameters are passed over. `Unsupported` names those that are known.
    pub fn of_media_type(media_type: &str) -> Result<BodyFormat> {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        BodyFormat::ALL.into_iter().find(|f| essence.eq_ignore_ascii_case(f.media_type())).ok_or_else(|| {
            let known = BodyFormat::ALL.map(BodyFormat::media_type).join(", ");
            Error::unsupported(format!("records of the type {media_type:?}")).with_hint(format!("known are {known}"))
        })
    }

    /// By a file's extension, as of `trips.csv`; `None` for what is not known.
    pub fn of_file_name(name: &str) -> Option<BodyFormat> {
        Path::new(name).extension()?.to_str()?.parse().ok()
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

    /// By its name, or by a usual extension.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "arrow" | "arrows" | "arrow-stream" | "ipc" => BodyFormat::ArrowStream,
            "parquet" | "pq" => BodyFormat::Parquet,
            "ndjson" | "jsonl" | "json" => BodyFormat::NdJson,
            "csv" => BodyFormat::Csv,
            _ => {
                return Err(Error::invalid(format!("{text:?} is no format of records"))
                    .with_hint("the formats are arrow (an IPC stream), parquet, ndjson and csv"));
            }
        })
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
