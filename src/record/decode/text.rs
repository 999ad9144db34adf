//! What the text formats share: the types that text is read as, and the beginning of a body, from which types are guessed.

use super::Source;
use crate::error::Result;
use crate::record::TableSchema;
use crate::record::schema::retype;
use ::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use ::arrow::compute::cast;
use ::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::io::Read;
use std::sync::Arc;

/// Bytes of a body from which types are guessed.
pub(super) const PREFIX_BYTES: usize = 1 << 20;
/// Rows from which types are guessed.
pub(super) const PREFIX_ROWS: usize = 1000;
/// Decimals and whole numbers while they are text's: with more digits than any column has, so that what does not fit shows.
const DECIMAL: DataType = DataType::Decimal256(76, 38);
/// How zones of timestamps are named to the decoders, which know no zones by name.
const UTC_OFFSET: &str = "+00:00";
/// The mark that some programs put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The first bytes of a body, without a byte order mark; fewer than [`PREFIX_BYTES`] only if the body is shorter.
pub(super) fn prefix(body: &mut dyn Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    body.take(PREFIX_BYTES as u64).read_to_end(&mut bytes).map_err(super::unreadable)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// A type as CSV is read. The decoder does not say where a decimal is wrong, so that those stay text at first.
fn of_csv(ty: &DataType) -> DataType {
    match ty {
        DataType::Int32 | DataType::Int64 => ty.clone(),
        DataType::Decimal128(..) => DataType::Utf8,
        other => lenient(other),
    }
}

/// A type as JSON is read: everything may be missing, which is found out later with the column's name.
fn lenient(ty: &DataType) -> DataType {
    match ty {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(UTC_OFFSET.into())),
        // The decoder of JSON would cut fractions off.
        DataType::Decimal128(..) | DataType::Int32 | DataType::Int64 => DECIMAL,
        DataType::List(item) => DataType::List(lenient_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(lenient_field).collect::<Fields>()),
        DataType::Map(entry, sorted) => {
            let DataType::Struct(fields) = entry.data_type() else { return ty.clone() };
            let [key, value] = fields.as_ref() else { return ty.clone() };
            let entries = DataType::Struct(Fields::from(vec![key.clone(), lenient_field(value)]));
            DataType::Map(Arc::new(Field::new(entry.name(), entries, false)), *sorted)
        }
        other => other.clone(),
    }
}

fn lenient_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), lenient(field.data_type()), true))
}

/// The columns that a body has, with the table's types where it has the column, else with those that were guessed. In JSON
/// the table's other columns may still come.
pub(super) fn with_table(guessed: &Schema, table: Option<&TableSchema>, is_json: bool) -> Schema {
    let as_read = |ty: &DataType| if is_json { lenient(ty) } else { of_csv(ty) };
    let mut fields: Vec<FieldRef> = Vec::new();
    let mut known = vec![false; table.map_or(0, |t| t.arrow().fields().len())];
    for field in guessed.fields() {
        let place = table.and_then(|t| place(t, field.name()));
        let ty = match (table, place) {
            (Some(table), Some(place)) => {
                if let Some(known) = known.get_mut(place) {
                    *known = true;
                }
                table.arrow().fields().get(place).map(|f| as_read(f.data_type()))
            }
            _ => None,
        };
        let ty = ty.unwrap_or_else(|| as_read(&zoned(field.data_type())));
        fields.push(Arc::new(Field::new(field.name(), ty, true)));
    }
    if let Some(table) = table.filter(|_| is_json) {
        let missing = table.arrow().fields().iter().zip(known).filter(|(_, known)| !known);
        fields.extend(missing.map(|(field, _)| lenient_field(field)));
    }
    Schema::new(fields)
}

/// Rows of text, brought from the types that text is read as to the table's.
struct Retyped {
    source: Box<dyn Source>,
    schema: SchemaRef,
    rows: u64,
}

/// The source with the table's own types for the columns that the table has.
pub(super) fn retyped(source: Box<dyn Source>, table: Option<&TableSchema>) -> Box<dyn Source> {
    let fields = source.schema().fields().iter().map(|field| {
        let known = table.and_then(|table| table.arrow().fields().get(place(table, field.name())?));
        let ty = known.map_or_else(|| settled(field.data_type()), |known| known.data_type().clone());
        Arc::new(Field::new(field.name(), ty, true))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    Box::new(Retyped { source, schema, rows: 0 })
}

impl Source for Retyped {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.source.next()? else { return Ok(None) };
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns =
            columns.map(|(c, f)| settle(c, f.data_type(), f.name(), self.rows)).collect::<Result<Vec<_>>>()?;
        self.rows += batch.num_rows() as u64;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map(Some)
            .map_err(|e| super::wrong("rows do not have the table's columns", &e))
    }
}

/// A column in the type that it is given out with; see [`of_csv`].
fn settle(column: &ArrayRef, to: &DataType, name: &str, first_row: u64) -> Result<ArrayRef> {
    if !matches!((column.data_type(), to), (DataType::Utf8, DataType::Decimal128(..))) {
        return retype(column, to, name, first_row);
    }
    let failed = |what: &dyn std::fmt::Display| super::wrong(format_args!("column {name:?}"), what).in_column(name);
    let numbers = cast(column, &DECIMAL).map_err(|e| failed(&e))?;
    let lost = (0..column.len()).find(|row| column.is_valid(*row) && numbers.is_null(*row));
    match lost {
        None => retype(&numbers, to, name, first_row),
        Some(row) => {
            let number = first_row + row as u64 + 1;
            let value = column.as_string::<i32>().value(row);
            let text = format!("{value:?} is no decimal");
            Err(super::wrong(format_args!("row {number}, column {name:?}"), &text).at_row(number).in_column(name))
        }
    }
}

/// Moments in text are UTC's unless they say otherwise: Spark has no other kind of timestamp by default.
fn zoned(ty: &DataType) -> DataType {
    match ty {
        DataType::Timestamp(..) => {
            DataType::Timestamp(::arrow::datatypes::TimeUnit::Microsecond, Some(UTC_OFFSET.into()))
        }
        other => other.clone(),
    }
}

/// The type of a guessed column: no decimals are guessed, so that those are whole numbers.
fn settled(ty: &DataType) -> DataType {
    let field = |f: &FieldRef| Arc::new(Field::new(f.name(), settled(f.data_type()), true));
    match ty {
        DataType::Decimal256(..) => DataType::Int64,
        DataType::List(item) => DataType::List(field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// By exact name, else by the only one that differs in case.
fn place(table: &TableSchema, name: &str) -> Option<usize> {
    let fields = table.arrow().fields();
    if let Some((place, _)) = fields.find(name) {
        return Some(place);
    }
    let mut alike = fields.iter().enumerate().filter(|(_, f)| f.name().eq_ignore_ascii_case(name));
    match (alike.next(), alike.next()) {
        (Some((place, _)), None) => Some(place),
        _ => None,
    }
}
