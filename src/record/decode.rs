//! Request bodies as batches: Arrow IPC streams, Parquet, NDJSON, CSV.
//!
//! Everything streams: memory is bounded by one batch or one line, whatever the body's length. Parquet needs a file to seek in,
//! so that it is taken from a temporary one. What is wrong with a body is `Invalid` and names the row and the column; a decoder
//! that panics over a body is one more way of finding it damaged.

mod csv;
mod ipc;
mod json;
mod parquet;
mod text;

#[cfg(test)]
mod tests;

use super::TableSchema;
use crate::error::{Error, Result};
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::SchemaRef;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

/// Rows of a batch of decoded text or Parquet.
const BATCH_ROWS: usize = 8192;

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
    const ALL: [BodyFormat; 4] = [BodyFormat::ArrowStream, BodyFormat::Parquet, BodyFormat::NdJson, BodyFormat::Csv];

    /// By the media type of a request; parameters are passed over. `Unsupported` names those that are known.
    pub fn of_media_type(media_type: &str) -> Result<BodyFormat> {
        let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Ok(match bare.as_str() {
            "application/vnd.apache.arrow.stream" => BodyFormat::ArrowStream,
            "application/vnd.apache.parquet" | "application/x-parquet" | "application/parquet" => BodyFormat::Parquet,
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                BodyFormat::NdJson
            }
            "text/csv" | "application/csv" => BodyFormat::Csv,
            _ => {
                let known: Vec<&str> = Self::ALL.into_iter().map(BodyFormat::media_type).collect();
                return Err(Error::unsupported(format!("rows as {bare:?}"))
                    .with_hint(format!("the media types are {}", known.join(", "))));
            }
        })
    }

    /// By a file's extension, as of `trips.csv`; `None` for what is not known.
    pub fn of_file_name(name: &str) -> Option<BodyFormat> {
        name.rsplit_once('.').and_then(|(_, extension)| extension.parse().ok())
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

    /// By the name that a person gives it, which is also its files' extension.
    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "arrow" | "arrows" | "arrow-stream" | "ipc" => BodyFormat::ArrowStream,
            "parquet" | "pq" => BodyFormat::Parquet,
            "ndjson" | "jsonl" | "json" => BodyFormat::NdJson,
            "csv" => BodyFormat::Csv,
            _ => {
                return Err(Error::invalid(format!("{text:?} is no format of rows"))
                    .with_hint("the formats are arrow, parquet, ndjson and csv"));
            }
        })
    }
}

/// What decodes one format: the next batch, `None` at the end.
trait Source: Send {
    fn schema(&self) -> &SchemaRef;
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// The rows of a body, batch by batch. All batches have one schema. After an error there are no more.
pub struct Rows {
    source: Option<Box<dyn Source>>,
    schema: SchemaRef,
}

impl Rows {
    /// Starts reading. Where `table` is known, text is read as its columns' types; else types are guessed from the first rows.
    pub fn read(format: BodyFormat, body: Box<dyn Read + Send>, table: Option<&TableSchema>) -> Result<Rows> {
        let source = guarded(|| {
            Ok(match format {
                BodyFormat::ArrowStream => ipc::open(body)?,
                BodyFormat::Parquet => parquet::open(body)?,
                BodyFormat::NdJson => json::open(body, table)?,
                BodyFormat::Csv => csv::open(body, table)?,
            })
        })?;
        Ok(Rows { schema: source.schema().clone(), source: Some(source) })
    }

    /// The rows of a Parquet file that can be read in place.
    pub fn of_parquet(file: impl ::parquet::file::reader::ChunkReader + 'static) -> Result<Rows> {
        let source = guarded(|| parquet::open_file(file))?;
        Ok(Rows { schema: source.schema().clone(), source: Some(source) })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let source = self.source.as_mut()?;
        let next = guarded(|| source.next());
        if !matches!(next, Ok(Some(_))) {
            self.source = None;
        }
        next.transpose()
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A panic of a decoder becomes an error; what it leaves behind is not used again.
fn guarded<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(Error::invalid("the body is damaged")))
}

/// What a decoder says, shortened: some messages hold the whole row.
fn wrong(context: impl std::fmt::Display, error: &dyn std::fmt::Display) -> Error {
    const SHOWN: usize = 300;
    let mut text = error.to_string();
    if text.len() > SHOWN {
        let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    Error::invalid(format!("{context}: {text}"))
}

/// What goes wrong while a body is taken in: the sender's connection, or our own disk.
fn unreadable(error: std::io::Error) -> Error {
    match error.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
        Some(inner) => inner.duplicate(),
        None => {
            Error::new(crate::ErrorKind::Unavailable, format!("the body could not be read: {error}")).with_source(error)
        }
    }
}
