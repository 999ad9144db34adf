//! [`RowDecoder`]: Avro values into a batch.

use super::build::Column;
use super::plan::{Record, Scale, Step};
use super::read::Reader;
use super::types::Type;
use crate::error::{Error, ErrorKind, Result};
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

/// Reads rows that were written with one schema as rows of another.
pub struct RowDecoder {
    record: Record,
    target: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    types: u64,
    /// A row that failed has left columns of unequal length.
    broken: bool,
}

impl std::fmt::Debug for RowDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowDecoder").field("target", &self.target).field("rows", &self.rows).finish()
    }
}

impl RowDecoder {
    /// `writer` is the Avro schema (JSON) that the rows were written with.
    ///
    /// Errors: `Corrupt` for what is no schema, `Unsupported` for a column whose type cannot be read as the target's, with the
    /// column named.
    pub fn new(writer: &str, target: SchemaRef) -> Result<RowDecoder> {
        let record = Record::new(Type::parse_row(writer)?, target.fields())?;
        let column = |f: &arrow::datatypes::FieldRef| {
            Column::new(f.data_type(), 0).map_err(|e| e.context(super::build::in_column(f)))
        };
        let columns = target.fields().iter().map(column).collect::<Result<_>>()?;
        let types = record.count();
        Ok(RowDecoder { record, target, columns, rows: 0, bytes: 0, types, broken: false })
    }

    /// Reads one row, which must take all of `row`.
    ///
    /// After an error the decoder is of no more use: [`RowDecoder::finish`] gives the error again.
    pub fn decode(&mut self, row: &[u8]) -> Result<()> {
        if self.broken {
            return Err(Error::internal("a decoder of rows was used after it had failed"));
        }
        self.broken = true;
        let mut reader = Reader::new(row, self.types);
        fields(&self.record, &mut self.columns, &mut reader)?;
        if reader.remaining() > 0 {
            return Err(Error::corrupt(format!("{} bytes after an avro row", reader.remaining())));
        }
        self.broken = false;
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(row.len());
        Ok(())
    }

    /// Rows read since the last batch.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True where no row was read since the last batch.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Encoded bytes of the rows read since the last batch: a measure of what the batch will take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows read so far, as a batch of the target schema. The decoder is empty afterwards.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        if self.broken {
            return Err(Error::internal("a decoder of rows was used after it had failed"));
        }
        let columns = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        self.bytes = 0;
        let batch = RecordBatch::try_new_with_options(self.target.clone(), columns.clone(), &options);
        batch.map_err(|e| {
            let null = |f: &arrow::datatypes::FieldRef, c: &dyn Array| !f.is_nullable() && c.null_count() > 0;
            match self.target.fields().iter().zip(&columns).find(|(f, c)| null(f, c)) {
                Some((field, _)) => {
                    Error::corrupt(format!("column {:?} must not be null, and a row has none", field.name()))
                }
                None => Error::new(ErrorKind::Corrupt, format!("avro rows: {e}")).with_source(e),
            }
        })
    }
}

fn fields(record: &Record, columns: &mut [Column], reader: &mut Reader<'_>) -> Result<()> {
    for (name, column, step) in &record.fields {
        let done = match (column.and_then(|i| columns.get_mut(i)), step) {
            (Some(column), step) => read(step, column, reader),
            (None, Step::Skip(of)) => skip(of, reader),
            (None, _) => Err(Error::internal("a field without a column is not passed over")),
        };
        done.map_err(|e| if e.message().starts_with("field ") { e } else { e.context(format!("field {name:?}")) })?;
    }
    for missing in &record.missing {
        columns.get_mut(*missing).map_or(Ok(()), Column::null)?;
    }
    Ok(())
}

fn read(step: &Step, column: &mut Column, reader: &mut Reader<'_>) -> Result<()> {
    reader.step()?;
    match (step, column) {
        (Step::Union(branches), column) => {
            let branch = reader.index(branches.len())?;
            let step = branches.get(branch).ok_or_else(|| Error::internal("a union without its branch"))?;
            return read(step, column, reader);
        }
        (Step::Null, column) => column.null()?,
        (Step::Skip(of), column) => {
            skip(of, reader)?;
            column.null()?;
        }
        (Step::Boolean, Column::Boolean(b)) => b.append_value(reader.boolean()?),
        (Step::Int, Column::Word32(b, _)) => b.append_value(reader.int()?),
        (Step::Long(scale), Column::Word64(b, _)) => b.append_value(scale.apply(reader.long()?)?),
        (Step::LongToFloat, Column::Float32(b)) => b.append_value(reader.long()? as f32),
        (Step::LongToDouble, Column::Float64(b)) => b.append_value(reader.long()? as f64),
        (Step::Float, Column::Float32(b)) => b.append_value(reader.float()?),
        (Step::FloatToDouble, Column::Float64(b)) => b.append_value(f64::from(reader.float()?)),
        (Step::Double, Column::Float64(b)) => b.append_value(reader.double()?),
        (Step::Text, Column::Utf8(b)) => Column::text(b, reader.str()?)?,
        (Step::Symbol(symbols), Column::Utf8(b)) => {
            let symbol = reader.index(symbols.len())?;
            Column::text(b, symbols.get(symbol).map(|s| &**s).unwrap_or_default())?;
        }
        (Step::Print(of), Column::Utf8(b)) => Column::text(b, &print(of, reader)?)?,
        (Step::Bytes(size), Column::Binary(b)) => {
            let bytes = reader.bytes_of(*size)?;
            Column::bytes(b, bytes)?;
        }
        (Step::Fixed(size), Column::Fixed(b)) => {
            b.append_value(reader.take(*size)?).map_err(|e| Error::internal(e.to_string()))?;
        }
        (Step::Decimal { size, power, precision }, Column::Decimal(b)) => {
            let bytes = reader.bytes_of(*size)?;
            b.append_value(unscaled(bytes, *power, *precision)?);
        }
        (Step::List(item), Column::List(list, _)) => {
            while let Some(count) = reader.block()? {
                for _ in 0..count {
                    read(item, &mut list.items, reader)?;
                }
            }
            list.end(true)?;
        }
        (Step::Map(value), Column::Map(list, ..)) => entries(value, list, reader)?,
        (Step::Record(record), Column::Struct(group)) => {
            fields(record, &mut group.columns, reader)?;
            group.end(true);
        }
        (step, _) => return Err(Error::internal(format!("{step:?} does not fit its column"))),
    }
    Ok(())
}

fn entries(value: &Step, list: &mut super::build::Repeated, reader: &mut Reader<'_>) -> Result<()> {
    let Column::Struct(pair) = &mut *list.items else {
        return Err(Error::internal("the entries of a map are no struct"));
    };
    while let Some(count) = reader.block()? {
        for _ in 0..count {
            let [Column::Utf8(keys), values] = pair.columns.as_mut_slice() else {
                return Err(Error::internal("the entries of a map are no pairs"));
            };
            Column::text(keys, reader.str()?)?;
            read(value, values, reader)?;
            pair.end(true);
        }
    }
    list.end(true)
}

impl Scale {
    pub(super) fn apply(self, value: i64) -> Result<i64> {
        match self {
            Scale::Same => Some(value),
            Scale::Times(factor) => value.checked_mul(factor),
            Scale::Over(factor) => (value % factor == 0).then(|| value / factor),
        }
        .ok_or_else(|| Error::unsupported(format!("the time {value} cannot be told in the unit of its column")))
    }
}

/// The number of a decimal's big-endian bytes, with zeros behind it.
fn unscaled(bytes: &[u8], power: u32, precision: u8) -> Result<i128> {
    let refused = || Error::unsupported(format!("a decimal of more than {precision} digits"));
    let negative = bytes.first().is_some_and(|b| *b >= 0x80);
    let mut word = [if negative { 0xff } else { 0 }; 16];
    // Longer ones begin with copies of the sign.
    let (head, tail) = bytes.split_at(bytes.len().saturating_sub(16));
    let sign = if negative { 0xff } else { 0 };
    if head.iter().any(|b| *b != sign) {
        return Err(refused());
    }
    if let Some(place) = word.get_mut(16 - tail.len()..) {
        place.copy_from_slice(tail);
    }
    let number = i128::from_be_bytes(word);
    if (number < 0) != negative {
        return Err(refused());
    }
    let scaled = 10i128.checked_pow(power).and_then(|p| number.checked_mul(p)).ok_or_else(refused)?;
    let limit = 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX);
    if scaled.unsigned_abs() < limit { Ok(scaled) } else { Err(refused()) }
}

/// As Java's `toString` has it, as far as Rust's own agrees: integers and booleans exactly.
fn print(of: &Type, reader: &mut Reader<'_>) -> Result<String> {
    Ok(match of {
        Type::Boolean => reader.boolean()?.to_string(),
        Type::Int(_) | Type::Long(_) => reader.long()?.to_string(),
        Type::Float => format!("{:?}", reader.float()?),
        _ => format!("{:?}", reader.double()?),
    })
}

/// Passes over a value.
fn skip(of: &Type, reader: &mut Reader<'_>) -> Result<()> {
    reader.step()?;
    match of {
        Type::Null => {}
        Type::Boolean => drop(reader.boolean()?),
        Type::Int(_) | Type::Long(_) | Type::Enum(_) => drop(reader.long()?),
        Type::Float => drop(reader.take(4)?),
        Type::Double => drop(reader.take(8)?),
        Type::Bytes(_) | Type::String => drop(reader.bytes()?),
        Type::Fixed(size, _) => drop(reader.take(*size)?),
        Type::Array(items) => {
            while let Some(count) = reader.block()? {
                for _ in 0..count {
                    skip(items, reader)?;
                }
            }
        }
        Type::Map(values) => {
            while let Some(count) = reader.block()? {
                for _ in 0..count {
                    reader.bytes()?;
                    skip(values, reader)?;
                }
            }
        }
        Type::Union(branches) => {
            let branch = reader.index(branches.len())?;
            return branches.get(branch).map_or(Ok(()), |of| skip(of, reader));
        }
        Type::Record(fields) => {
            for (_, of) in fields {
                skip(of, reader)?;
            }
        }
    }
    Ok(())
}
