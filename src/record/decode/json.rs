//! NDJSON: one object a line.
//!
//! Lines are taken one by one, so that a line without end is refused and every error has a line's number. A member that is
//! neither the table's nor among those of the first lines is an error: it would be lost otherwise.

use super::text::{PREFIX_BYTES, PREFIX_ROWS, prefix, retyped, with_table};
use super::{BATCH_ROWS, Source, unreadable, wrong};
use crate::error::{Error, Result};
use crate::record::TableSchema;
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::{Schema, SchemaRef};
use ::arrow::json::ReaderBuilder;
use ::arrow::json::reader::infer_json_schema;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

/// Longest line, bytes.
const LINE_MAX: usize = 64 << 20;
/// Bytes of lines that are decoded at once.
const BATCH_BYTES: usize = 16 << 20;
/// Deepest nesting of a value.
const DEPTH_MAX: usize = 64;

struct Json {
    lines: Lines,
    schema: SchemaRef,
}

/// The lines of a body, blank ones left out.
struct Lines {
    body: BufReader<Box<dyn Read + Send>>,
    /// Lines read, blank ones too.
    number: u64,
}

pub(super) fn open(mut body: Box<dyn Read + Send>, table: Option<&TableSchema>) -> Result<Box<dyn Source>> {
    let start = prefix(&mut *body)?;
    let guessed = guess(&start)?;
    if guessed.fields().is_empty() && table.is_none() {
        return Err(Error::invalid("the body has no row, so that its columns are not known"));
    }
    let schema = Arc::new(with_table(&guessed, table, true));
    let whole: Box<dyn Read + Send> = Box::new(Cursor::new(start).chain(body));
    let lines = Lines { body: BufReader::with_capacity(1 << 16, whole), number: 0 };
    Ok(retyped(Box::new(Json { lines, schema }), table))
}

/// Types by the first lines.
fn guess(start: &[u8]) -> Result<Schema> {
    // The last line of a longer body is cut off.
    let complete = match start.iter().rposition(|b| *b == b'\n') {
        Some(end) if start.len() >= PREFIX_BYTES - 3 => start.get(..=end).unwrap_or(start),
        _ => start,
    };
    for (index, line) in complete.split(|b| *b == b'\n').take(PREFIX_ROWS).enumerate() {
        check_depth(line).map_err(|e| e.context(format!("line {}", index + 1)))?;
    }
    let (schema, _) = infer_json_schema(Cursor::new(complete), Some(PREFIX_ROWS)).map_err(|e| {
        wrong("the first lines", &e).with_hint("NDJSON has one JSON object a line, and one type a member")
    })?;
    Ok(schema)
}

impl Source for Json {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut text = Vec::new();
        let first = self.lines.number;
        let mut ends = Vec::new();
        while ends.len() < BATCH_ROWS && text.len() < BATCH_BYTES {
            if !self.lines.next(&mut text)? {
                break;
            }
            ends.push((text.len(), self.lines.number));
        }
        if ends.is_empty() {
            return Ok(None);
        }
        match decode(&self.schema, &text, ends.len()) {
            Ok(batch) => Ok(batch),
            Err(error) => {
                Err(self.explain(&text, &ends).unwrap_or_else(|| wrong(format_args!("after line {first}"), &error)))
            }
        }
    }
}

impl Json {
    /// Which line and member an error is about.
    fn explain(&self, text: &[u8], ends: &[(usize, u64)]) -> Option<Error> {
        let mut start = 0;
        for (end, number) in ends {
            let line = text.get(start..*end)?;
            start = *end;
            let Err(error) = decode(&self.schema, line, 1) else { continue };
            let column = self.schema.fields().iter().find_map(|field| {
                let alone: SchemaRef = Arc::new(Schema::new(vec![field.clone()]));
                let decoder = ReaderBuilder::new(alone).with_batch_size(2).build_decoder();
                decoder.and_then(|mut d| d.decode(line).and_then(|_| d.flush())).err().map(|e| (field.name(), e))
            });
            // What is no JSON at all fails for every member.
            return Some(match (serde_json::from_slice::<serde_json::Value>(line), column) {
                (Err(syntax), _) => wrong(format_args!("line {number}"), &syntax).at_row(*number),
                (Ok(_), Some((name, error))) => {
                    wrong(format_args!("line {number}, column {name:?}"), &error).at_row(*number).in_column(name)
                }
                (Ok(_), None) => wrong(format_args!("line {number}"), &error)
                    .at_row(*number)
                    .with_hint("every member must be a column of the table, or stand in the first lines"),
            });
        }
        None
    }
}

fn decode(schema: &SchemaRef, text: &[u8], rows: usize) -> Result<Option<RecordBatch>, ::arrow::error::ArrowError> {
    let mut decoder =
        ReaderBuilder::new(schema.clone()).with_batch_size(rows.max(1) + 1).with_strict_mode(true).build_decoder()?;
    let mut done = 0;
    while done < text.len() {
        let step = decoder.decode(text.get(done..).unwrap_or_default())?;
        if step == 0 {
            return Err(::arrow::error::ArrowError::JsonError("more objects than lines".to_owned()));
        }
        done += step;
    }
    if decoder.has_partial_record() {
        return Err(::arrow::error::ArrowError::JsonError("an object that is cut off".to_owned()));
    }
    decoder.flush()
}

impl Lines {
    /// Appends the next line that is not blank; false at the end.
    fn next(&mut self, text: &mut Vec<u8>) -> Result<bool> {
        loop {
            let start = text.len();
            let read = self.body.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', text).map_err(unreadable)?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if read > LINE_MAX {
                return Err(Error::invalid(format!("line {} has more than {LINE_MAX} bytes", self.number)));
            }
            let line = text.get(start..).unwrap_or_default();
            check_depth(line).map_err(|e| e.context(format!("line {}", self.number)))?;
            if line.iter().any(|b| !b.is_ascii_whitespace()) {
                if !text.ends_with(b"\n") {
                    text.push(b'\n');
                }
                return Ok(true);
            }
            text.truncate(start);
        }
    }
}

/// Decoders walk nested values by recursion, and the stack is finite.
fn check_depth(line: &[u8]) -> Result<()> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(Error::invalid(format!("a value is nested deeper than {DEPTH_MAX} levels")));
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
