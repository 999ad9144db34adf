//! [`RowEncoder`]: the rows of a batch as Avro values.

use super::build::in_column;
use super::plan::Scale;
use super::types::{Logical, Type};
use super::write::{self, Kind, Write};
use crate::error::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use std::sync::Arc;

/// Writes rows of one schema as values of an Avro schema.
#[derive(Debug)]
pub struct RowEncoder {
    fields: Vec<(Option<usize>, Write)>,
    columns: usize,
}

/// The rows of one batch, ready to be written.
#[derive(Debug)]
pub struct EncodedRows<'e> {
    encoder: &'e RowEncoder,
    columns: &'e [ArrayRef],
    rows: usize,
}

impl RowEncoder {
    /// Meets the columns of `schema` and the fields of the Avro schema (JSON) by name. Fields without a column are written as
    /// null.
    ///
    /// Errors: `Invalid` for a column without a field, for types that do not agree, and for a field that cannot be null and
    /// has no column, each by name; `Corrupt` for what is no schema.
    pub fn new(schema: &Schema, avro: &str) -> Result<RowEncoder> {
        let fields = record(schema.fields(), Type::parse_row(avro)?)?;
        Ok(RowEncoder { fields, columns: schema.fields().len() })
    }

    /// The rows of a batch of the encoder's schema.
    pub fn rows<'e>(&'e self, batch: &'e RecordBatch) -> Result<EncodedRows<'e>> {
        if batch.num_columns() != self.columns {
            let found = batch.num_columns();
            return Err(Error::internal(format!("rows of {found} columns for an encoder of {}", self.columns)));
        }
        Ok(EncodedRows { encoder: self, columns: batch.columns(), rows: batch.num_rows() })
    }
}

impl EncodedRows<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends one row's bytes. `Invalid` for a null where the Avro schema has none, and for a decimal of too many digits.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if row >= self.rows {
            return Err(Error::internal(format!("row {row} of {}", self.rows)));
        }
        write::fields(&self.encoder.fields, self.columns, row, out)
    }
}

fn record(from: &Fields, to: Vec<(Arc<str>, Type)>) -> Result<Vec<(Option<usize>, Write)>> {
    if let Some(lost) = from.iter().find(|f| !to.iter().any(|(name, _)| **name == **f.name())) {
        return Err(Error::invalid(format!("column {:?} is not in the table's avro schema", lost.name())));
    }
    let mut fields = Vec::with_capacity(to.len());
    for (name, of) in to {
        let column = from.iter().position(|f| f.name().as_str() == &*name);
        let found = column.and_then(|i| from.get(i));
        fields.push((column, field(&name, of, found)?));
    }
    Ok(fields)
}

/// A field, with the column that it comes from.
fn field(name: &Arc<str>, of: Type, from: Option<&Arc<Field>>) -> Result<Write> {
    let (of, null, value) = optional(name, of)?;
    match from {
        Some(from) => {
            let kind = kind(from, of).map_err(|e| e.context(in_column(from)))?;
            Ok(Write { name: name.clone(), null, value, kind })
        }
        None if null.is_some() || of == Type::Null => Ok(Write { name: name.clone(), null, value, kind: Kind::Null }),
        None => Err(Error::invalid(format!(
            "field {name:?} of the avro schema cannot be null, and there is no such column"
        ))),
    }
}

/// The type that is not null, and the bytes that choose between the two.
fn optional(name: &str, of: Type) -> Result<(Type, Option<Vec<u8>>, Vec<u8>)> {
    let Type::Union(branches) = of else { return Ok((of, None, Vec::new())) };
    let null = branches.iter().position(|b| *b == Type::Null).map(branch);
    let mut rest = branches.into_iter().enumerate().filter(|(_, b)| *b != Type::Null);
    match (rest.next(), rest.next()) {
        (Some((at, of)), None) => Ok((of, null, branch(at))),
        (None, _) => Ok((Type::Null, null, Vec::new())),
        (Some(_), Some(_)) => Err(Error::unsupported(format!("field {name:?} is a union of several types"))),
    }
}

fn branch(at: usize) -> Vec<u8> {
    let mut out = Vec::new();
    write::long(at as i64, &mut out);
    out
}

fn kind(from: &Field, of: Type) -> Result<Kind> {
    use DataType as D;
    Ok(match (from.data_type(), of) {
        (D::Null, _) | (_, Type::Null) => Kind::Null,
        (D::Boolean, Type::Boolean) => Kind::Boolean,
        (D::Int8 | D::Int16 | D::Int32, Type::Int(Logical::None)) => Kind::Int,
        (D::Date32, Type::Int(Logical::Date | Logical::None)) => Kind::Int,
        (D::Time32(TimeUnit::Millisecond), Type::Int(Logical::TimeMillis | Logical::None)) => Kind::Int,
        (D::Int8 | D::Int16 | D::Int32, Type::Long(Logical::None)) => Kind::Int,
        (D::Int64, Type::Long(Logical::None)) => Kind::Long(Scale::Same),
        (D::Time64(TimeUnit::Microsecond), Type::Long(Logical::TimeMicros | Logical::None)) => Kind::Long(Scale::Same),
        (D::Timestamp(unit, _), Type::Long(logical)) => match timestamp(*unit, logical) {
            Some(scale) => Kind::Long(scale),
            None => return Err(refused(from.data_type(), &Type::Long(logical))),
        },
        (D::Float32, Type::Float) => Kind::Float,
        (D::Float32, Type::Double) => Kind::FloatAsDouble,
        (D::Float64, Type::Double) => Kind::Double,
        (D::Utf8 | D::LargeUtf8 | D::Utf8View, Type::String) => Kind::Text,
        (D::Utf8 | D::LargeUtf8 | D::Utf8View, Type::Enum(symbols)) => Kind::Symbol(symbols),
        (D::Binary | D::LargeBinary | D::BinaryView, Type::Bytes(Logical::None)) => Kind::Bytes,
        (D::FixedSizeBinary(_), Type::Bytes(Logical::None)) => Kind::Bytes,
        (D::FixedSizeBinary(size), Type::Fixed(to, Logical::None)) if usize::try_from(*size) == Ok(to) => Kind::Fixed,
        (D::Decimal128(_, scale), Type::Bytes(Logical::Decimal { precision, scale: to })) if to >= *scale => {
            Kind::Decimal { size: None, power: u32::from((to - scale).unsigned_abs()), precision }
        }
        (D::Decimal128(_, scale), Type::Fixed(size, Logical::Decimal { precision, scale: to })) if to >= *scale => {
            Kind::Decimal { size: Some(size), power: u32::from((to - scale).unsigned_abs()), precision }
        }
        (D::List(item) | D::LargeList(item), Type::Array(items)) => {
            Kind::List(Box::new(field(&Arc::from(item.name().as_str()), *items, Some(item))?))
        }
        (D::Map(entries, _), Type::Map(values)) => match entries.data_type() {
            D::Struct(pair) if pair.len() == 2 => {
                let value = pair.get(1).ok_or_else(|| Error::internal("a map without values"))?;
                Kind::Map(Box::new(field(&Arc::from(value.name().as_str()), *values, Some(value))?))
            }
            other => return Err(refused(other, &Type::Map(values))),
        },
        (D::Struct(columns), Type::Record(fields)) => Kind::Struct(record(columns, fields)?),
        (from, of) => return Err(refused(from, &of)),
    })
}

fn timestamp(from: TimeUnit, to: Logical) -> Option<Scale> {
    use Logical::*;
    let per_second = match from {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let wanted = match to {
        TimestampMillis | LocalTimestampMillis => 1000,
        TimestampMicros | LocalTimestampMicros => 1_000_000,
        None | Date | TimeMillis | TimeMicros | Decimal { .. } => return Option::None,
    };
    Some(match wanted {
        w if w == per_second => Scale::Same,
        w if w > per_second => Scale::Times(w / per_second),
        w => Scale::Over(per_second / w),
    })
}

fn refused(from: &DataType, of: &Type) -> Error {
    Error::invalid(format!("{from} cannot be written as avro {}", of.name()))
}
