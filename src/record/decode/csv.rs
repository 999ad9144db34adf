//! CSV with a header line. An empty value is null.

use super::text::{PREFIX_BYTES, PREFIX_ROWS, prefix, retyped, with_table};
use super::{BATCH_ROWS, Source, unreadable, wrong};
use crate::error::{Error, Result};
use crate::record::TableSchema;
use ::arrow::array::RecordBatch;
use ::arrow::csv::ReaderBuilder;
use ::arrow::csv::reader::{Decoder, Format};
use ::arrow::datatypes::{DataType, SchemaRef};
use ::arrow::error::ArrowError;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

/// Most bytes between two batches: a quote that is never closed must not take all memory.
const BATCH_BYTES_MAX: usize = 64 << 20;

struct Csv {
    body: BufReader<Box<dyn Read + Send>>,
    decoder: Decoder,
    schema: SchemaRef,
    rows: u64,
}

pub(super) fn open(mut body: Box<dyn Read + Send>, table: Option<&TableSchema>) -> Result<Box<dyn Source>> {
    let start = prefix(&mut *body)?;
    let complete = match start.iter().rposition(|b| *b == b'\n') {
        Some(end) if start.len() >= PREFIX_BYTES - 3 => start.get(..=end).unwrap_or(&start),
        _ => &start,
    };
    // Rows that the beginning cuts off in the middle of a quoted value are not counted.
    let format = Format::default().with_header(true);
    let guessed = format
        .infer_schema(Cursor::new(complete), Some(PREFIX_ROWS))
        .map_err(|e| wrong("the first lines", &e).with_hint("CSV begins with a line of column names"))?;
    let schema = with_table(&guessed.0, table, false);
    if schema.fields().is_empty() {
        return Err(Error::invalid("the body is empty: CSV begins with a line of column names"));
    }
    if let Some(nested) = schema.fields().iter().find(|f| !is_text(f.data_type())) {
        return Err(Error::unsupported(format!("column {:?} of type {} in CSV", nested.name(), nested.data_type()))
            .with_hint("send such columns as Arrow, Parquet or NDJSON"));
    }
    let schema = Arc::new(schema);
    let decoder = ReaderBuilder::new(schema.clone()).with_header(true).with_batch_size(BATCH_ROWS).build_decoder();
    let whole: Box<dyn Read + Send> = Box::new(Cursor::new(start).chain(body));
    let body = BufReader::with_capacity(1 << 16, whole);
    Ok(retyped(Box::new(Csv { body, decoder, schema, rows: 0 }), table))
}

fn is_text(ty: &DataType) -> bool {
    !ty.is_nested() && !matches!(ty, DataType::Binary | DataType::FixedSizeBinary(_))
}

/// The decoder speaks of `column 3 at line 7`, both counted from 0: here with the column's name, and lines from 1.
fn explain(schema: &SchemaRef, rows: u64, error: &ArrowError) -> Error {
    let text = error.to_string();
    let place = text.split_once(" for column ").and_then(|(what, place)| {
        let (column, rest) = place.split_once(" at line ")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let line: u64 = rest.get(..digits)?.parse().ok()?;
        let name = schema.fields().get(column.parse::<usize>().ok()?)?.name();
        Some((what, line + 1, name))
    });
    match place {
        Some((what, line, name)) => {
            wrong(format_args!("line {line}, column {name:?}"), &what).at_row(line - 1).in_column(name)
        }
        None => wrong(format_args!("after row {rows}"), &text),
    }
}

impl Source for Csv {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut taken = 0;
        loop {
            let piece = self.body.fill_buf().map_err(unreadable)?;
            let is_end = piece.is_empty();
            let done = self.decoder.decode(piece).map_err(|e| explain(&self.schema, self.rows, &e))?;
            self.body.consume(done);
            taken += done;
            // Nothing taken: the batch is full, or the body is at its end.
            if done == 0 || is_end {
                break;
            }
            if taken > BATCH_BYTES_MAX {
                return Err(Error::invalid(format!("the rows after row {} exceed {BATCH_BYTES_MAX} bytes", self.rows))
                    .with_hint("a quote is not closed, or values are too long for CSV"));
            }
        }
        let batch = self.decoder.flush().map_err(|e| explain(&self.schema, self.rows, &e))?;
        self.rows += batch.as_ref().map_or(0, |b| b.num_rows() as u64);
        Ok(batch)
    }
}
