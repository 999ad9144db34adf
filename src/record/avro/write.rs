//! One value of an Arrow array as Avro bytes, after a plan that was made for both types.

use super::plan::Scale;
use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use std::sync::Arc;

/// How one field is written.
#[derive(Debug)]
pub(super) struct Write {
    /// The field's name, for messages.
    pub name: Arc<str>,
    /// The bytes that say null; `None` where the type has no null.
    pub null: Option<Vec<u8>>,
    /// The bytes that say that a value follows.
    pub value: Vec<u8>,
    pub kind: Kind,
}

/// How a value is written.
#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Boolean,
    /// Up to 32 bits.
    Int,
    Long(Scale),
    Float,
    FloatAsDouble,
    Double,
    Text,
    Symbol(Vec<Arc<str>>),
    Bytes,
    Fixed,
    Decimal {
        size: Option<usize>,
        power: u32,
        precision: u8,
    },
    List(Box<Write>),
    Map(Box<Write>),
    Struct(Vec<(Option<usize>, Write)>),
}

/// The fields of a record, in order, each from its column.
pub(super) fn fields(
    fields: &[(Option<usize>, Write)],
    columns: &[ArrayRef],
    row: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    for (column, field) in fields {
        match column {
            Some(i) => {
                let column = columns.get(*i).ok_or_else(|| Error::internal("a row without one of its columns"))?;
                field.write(&**column, row, out)?;
            }
            None => out.extend_from_slice(field.null.as_deref().unwrap_or_default()),
        }
    }
    Ok(())
}

impl Write {
    fn write(&self, array: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if array.is_null(row) || matches!(self.kind, Kind::Null) {
            return match &self.null {
                Some(null) => {
                    out.extend_from_slice(null);
                    Ok(())
                }
                None if matches!(self.kind, Kind::Null) => Ok(()),
                None => {
                    Err(Error::invalid(format!("{:?} is null, which the table's schema does not allow", self.name)))
                }
            };
        }
        out.extend_from_slice(&self.value);
        match self.kind.write(array, row, out) {
            Err(e) if !e.message().starts_with('"') => Err(e.context(format!("{:?}", self.name))),
            other => other,
        }
    }
}

impl Kind {
    fn write(&self, array: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Kind::Null => {}
            Kind::Boolean => out.push(u8::from(array.as_boolean().value(row))),
            Kind::Int => long(i64::from(int(array, row)?), out),
            Kind::Long(scale) => long(scale.apply(wide(array, row)?)?, out),
            Kind::Float => out.extend_from_slice(&array.as_primitive::<Float32Type>().value(row).to_le_bytes()),
            Kind::FloatAsDouble => {
                out.extend_from_slice(&f64::from(array.as_primitive::<Float32Type>().value(row)).to_le_bytes());
            }
            Kind::Double => out.extend_from_slice(&array.as_primitive::<Float64Type>().value(row).to_le_bytes()),
            Kind::Text => bytes(text(array, row)?.as_bytes(), out),
            Kind::Symbol(symbols) => {
                let symbol = text(array, row)?;
                let at = symbols.iter().position(|s| **s == *symbol);
                let at =
                    at.ok_or_else(|| Error::invalid(format!("{symbol:?} is none of the {} symbols", symbols.len())))?;
                long(at as i64, out);
            }
            Kind::Bytes => bytes(binary(array, row)?, out),
            Kind::Fixed => out.extend_from_slice(binary(array, row)?),
            Kind::Decimal { size, power, precision } => {
                decimal(array.as_primitive::<Decimal128Type>().value(row), *size, *power, *precision, out)?;
            }
            Kind::List(item) => {
                let items = match array.data_type() {
                    DataType::LargeList(_) => array.as_list::<i64>().value(row),
                    _ => array.as_list::<i32>().value(row),
                };
                blocks(items.len(), out, |i, out| item.write(&*items, i, out))?;
            }
            Kind::Map(value) => {
                let entries = array.as_map().value(row);
                let (Some(keys), Some(values)) = (entries.columns().first(), entries.columns().get(1)) else {
                    return Err(Error::internal("a map without keys or values"));
                };
                blocks(entries.len(), out, |i, out| {
                    bytes(text(&**keys, i)?.as_bytes(), out);
                    value.write(&**values, i, out)
                })?;
            }
            Kind::Struct(of) => fields(of, array.as_struct().columns(), row, out)?,
        }
        Ok(())
    }
}

/// The items of an array or map in one block.
fn blocks(len: usize, out: &mut Vec<u8>, mut item: impl FnMut(usize, &mut Vec<u8>) -> Result<()>) -> Result<()> {
    if len > 0 {
        long(len as i64, out);
        for i in 0..len {
            item(i, out)?;
        }
    }
    out.push(0);
    Ok(())
}

/// Zigzag, then seven bits a byte, low ones first.
pub(super) fn long(value: i64, out: &mut Vec<u8>) {
    let mut raw = ((value << 1) ^ (value >> 63)) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

fn int(array: &dyn Array, row: usize) -> Result<i32> {
    Ok(match array.data_type() {
        DataType::Int8 => i32::from(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => i32::from(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row),
        DataType::Time32(TimeUnit::Millisecond) => array.as_primitive::<Time32MillisecondType>().value(row),
        other => return Err(unexpected(other)),
    })
}

fn wide(array: &dyn Array, row: usize) -> Result<i64> {
    Ok(match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        DataType::Time64(TimeUnit::Microsecond) => array.as_primitive::<Time64MicrosecondType>().value(row),
        DataType::Timestamp(TimeUnit::Second, _) => array.as_primitive::<TimestampSecondType>().value(row),
        DataType::Timestamp(TimeUnit::Millisecond, _) => array.as_primitive::<TimestampMillisecondType>().value(row),
        DataType::Timestamp(TimeUnit::Microsecond, _) => array.as_primitive::<TimestampMicrosecondType>().value(row),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => array.as_primitive::<TimestampNanosecondType>().value(row),
        other => return Err(unexpected(other)),
    })
}

fn text(array: &dyn Array, row: usize) -> Result<&str> {
    Ok(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        other => return Err(unexpected(other)),
    })
}

fn binary(array: &dyn Array, row: usize) -> Result<&[u8]> {
    Ok(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        other => return Err(unexpected(other)),
    })
}

/// Big-endian two's complement: of that many bytes, or of as few as hold it.
fn decimal(unscaled: i128, size: Option<usize>, power: u32, precision: u8, out: &mut Vec<u8>) -> Result<()> {
    let refused = || Error::invalid(format!("a decimal of more than {precision} digits"));
    let scaled = 10i128.checked_pow(power).and_then(|p| unscaled.checked_mul(p)).ok_or_else(refused)?;
    if scaled.unsigned_abs() >= 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX) {
        return Err(refused());
    }
    let all = scaled.to_be_bytes();
    let fill = if scaled < 0 { 0xff } else { 0 };
    // The bytes before these are copies of the sign.
    let redundant =
        all.windows(2).take_while(|pair| matches!(pair, [a, b] if *a == fill && (*b ^ fill) < 0x80)).count();
    let minimal = all.get(redundant..).unwrap_or(&all);
    match size {
        None => bytes(minimal, out),
        Some(size) if size >= minimal.len() => {
            out.extend(std::iter::repeat_n(fill, size - minimal.len()));
            out.extend_from_slice(minimal);
        }
        Some(_) => return Err(refused()),
    }
    Ok(())
}

fn unexpected(found: &DataType) -> Error {
    Error::internal(format!("an encoder was made for another type than {found}"))
}
