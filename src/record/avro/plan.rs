//! [`Step`]: how a value of the writer's type becomes a value of a column, worked out once.

use super::types::{Logical, Type};
use crate::error::{Error, Result};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use std::sync::Arc;

/// How one value is read.
#[derive(Debug)]
pub(super) enum Step {
    /// Nobody wants it.
    Skip(Type),
    /// The writer has only nulls.
    Null,
    Union(Vec<Step>),
    Boolean,
    /// 32 bits to 32 bits.
    Int,
    /// To 64 bits, multiplied.
    Long(Scale),
    /// An integer to a floating number.
    LongToFloat,
    LongToDouble,
    Float,
    FloatToDouble,
    Double,
    /// Text or bytes to text.
    Text,
    /// Text, bytes or fixed to bytes.
    Bytes(Option<usize>),
    /// Fixed to fixed.
    Fixed(usize),
    Symbol(Vec<Arc<str>>),
    /// A number or a boolean as Java prints it.
    Print(Type),
    /// Unscaled bytes of that length, if it is fixed, to an unscaled number, times ten to the power.
    Decimal {
        size: Option<usize>,
        power: u32,
        precision: u8,
    },
    List(Box<Step>),
    Map(Box<Step>),
    Record(Record),
}

/// The fields of a record in the writer's order: the column that each goes to, if any.
#[derive(Debug)]
pub(super) struct Record {
    pub fields: Vec<(Arc<str>, Option<usize>, Step)>,
    /// Columns that the writer did not have.
    pub missing: Vec<usize>,
}

/// From one unit of time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Same,
    Times(i64),
    /// Refused where something is left over.
    Over(i64),
}

impl Record {
    /// Meets the writer's fields and the target's by name.
    pub fn new(writer: Vec<(Arc<str>, Type)>, target: &Fields) -> Result<Record> {
        let mut met = vec![false; target.len()];
        let mut fields = Vec::with_capacity(writer.len());
        for (name, of) in writer {
            let found = target.iter().position(|f| f.name().as_str() == &*name);
            let fresh = found.and_then(|i| met.get_mut(i)).is_some_and(|met| !std::mem::replace(met, true));
            let (column, step) = match found.and_then(|i| target.get(i)) {
                Some(field) if fresh => {
                    (found, Step::new(of, field).map_err(|e| e.context(super::build::in_column(field)))?)
                }
                _ => (None, Step::Skip(of)),
            };
            fields.push((name, column, step));
        }
        let missing = met.iter().enumerate().filter(|(_, met)| !**met).map(|(i, _)| i).collect();
        Ok(Record { fields, missing })
    }
}

impl Step {
    fn new(writer: Type, target: &Field) -> Result<Step> {
        Ok(match (writer, target.data_type()) {
            (Type::Union(branches), _) => {
                Step::Union(branches.into_iter().map(|b| Step::new(b, target)).collect::<Result<_>>()?)
            }
            (Type::Null, _) => Step::Null,
            (of, DataType::Null) => Step::Skip(of),
            (Type::Boolean, DataType::Boolean) => Step::Boolean,
            (of @ (Type::Int(_) | Type::Long(_)), to) => integer(of, to)?,
            (Type::Float, DataType::Float32) => Step::Float,
            (Type::Float, DataType::Float64) => Step::FloatToDouble,
            (Type::Double, DataType::Float64) => Step::Double,
            (of @ (Type::Boolean | Type::Float | Type::Double), DataType::Utf8) => Step::Print(of),
            (Type::String | Type::Bytes(Logical::None), DataType::Utf8) => Step::Text,
            (Type::String | Type::Bytes(Logical::None), DataType::Binary) => Step::Bytes(None),
            (Type::Fixed(size, Logical::None), DataType::Binary) => Step::Bytes(Some(size)),
            (Type::Fixed(size, Logical::None), DataType::FixedSizeBinary(to)) if usize::try_from(*to) == Ok(size) => {
                Step::Fixed(size)
            }
            (Type::Enum(symbols), DataType::Utf8) => Step::Symbol(symbols),
            (Type::Bytes(Logical::Decimal { precision, scale }), to) => decimal(None, precision, scale, to)?,
            (Type::Fixed(size, Logical::Decimal { precision, scale }), to) => {
                decimal(Some(size), precision, scale, to)?
            }
            (Type::Array(items), DataType::List(item)) => Step::List(Box::new(Step::new(*items, item)?)),
            (Type::Map(values), DataType::Map(entries, _)) => match entries.data_type() {
                DataType::Struct(pair)
                    if pair.len() == 2 && pair.first().is_some_and(|k| k.data_type() == &DataType::Utf8) =>
                {
                    let value = pair.get(1).ok_or_else(|| Error::internal("a map without values"))?;
                    Step::Map(Box::new(Step::new(*values, value)?))
                }
                other => return Err(refused(&Type::Map(values), other)),
            },
            (Type::Record(fields), DataType::Struct(to)) => Step::Record(Record::new(fields, to)?),
            (of, to) => return Err(refused(&of, to)),
        })
    }

    /// Steps in the tree, which is what a row may take without a byte.
    pub fn count(&self) -> u64 {
        1 + match self {
            Step::Skip(of) => types(of),
            Step::Union(branches) => branches.iter().map(Step::count).sum(),
            Step::List(items) | Step::Map(items) => items.count(),
            Step::Record(record) => record.count(),
            _ => 0,
        }
    }
}

impl Record {
    /// As [`Step::count`].
    pub fn count(&self) -> u64 {
        self.fields.iter().map(|(_, _, step)| step.count()).sum::<u64>() + self.missing.len() as u64
    }
}

fn types(of: &Type) -> u64 {
    1 + match of {
        Type::Array(items) | Type::Map(items) => types(items),
        Type::Union(branches) => branches.iter().map(types).sum(),
        Type::Record(fields) => fields.iter().map(|(_, of)| types(of)).sum(),
        _ => 0,
    }
}

fn integer(of: Type, to: &DataType) -> Result<Step> {
    let (wide, logical) = match &of {
        Type::Int(logical) => (false, *logical),
        Type::Long(logical) => (true, *logical),
        _ => return Err(refused(&of, to)),
    };
    let none = logical == Logical::None;
    Ok(match to {
        DataType::Int32 if !wide && none => Step::Int,
        DataType::Date32 if !wide && matches!(logical, Logical::None | Logical::Date) => Step::Int,
        DataType::Time32(TimeUnit::Millisecond) if !wide && matches!(logical, Logical::None | Logical::TimeMillis) => {
            Step::Int
        }
        // A reader that knows nothing of logical types has always got the number.
        DataType::Int64 => Step::Long(Scale::Same),
        DataType::Time64(TimeUnit::Microsecond) => match logical {
            Logical::TimeMillis => Step::Long(Scale::Times(1000)),
            Logical::None | Logical::TimeMicros => Step::Long(Scale::Same),
            _ => return Err(refused(&of, to)),
        },
        DataType::Timestamp(unit, _) => Step::Long(timestamp(logical, *unit).ok_or_else(|| refused(&of, to))?),
        DataType::Float32 if none => Step::LongToFloat,
        DataType::Float64 if none => Step::LongToDouble,
        DataType::Utf8 if none => Step::Print(of),
        _ => return Err(refused(&of, to)),
    })
}

fn timestamp(from: Logical, to: TimeUnit) -> Option<Scale> {
    use Logical::*;
    Some(match (from, to) {
        (None, _) => Scale::Same,
        (TimestampMillis | LocalTimestampMillis, TimeUnit::Millisecond) => Scale::Same,
        (TimestampMicros | LocalTimestampMicros, TimeUnit::Microsecond) => Scale::Same,
        (TimestampMillis | LocalTimestampMillis, TimeUnit::Microsecond) => Scale::Times(1000),
        // Old releases wrote milliseconds under this name, and Hudi reads them so where the table has milliseconds.
        (TimestampMicros | LocalTimestampMicros, TimeUnit::Millisecond) => Scale::Same,
        (TimestampMillis | LocalTimestampMillis, TimeUnit::Nanosecond) => Scale::Times(1_000_000),
        (TimestampMicros | LocalTimestampMicros, TimeUnit::Nanosecond) => Scale::Times(1000),
        _ => return Option::None,
    })
}

fn decimal(size: Option<usize>, precision: u8, scale: i8, to: &DataType) -> Result<Step> {
    match to {
        DataType::Decimal128(wider, to_scale) if *to_scale >= scale => {
            let power = u32::from((to_scale - scale).unsigned_abs());
            Ok(Step::Decimal { size, power, precision: *wider })
        }
        DataType::Decimal128(..) => Err(Error::unsupported(format!(
            "decimal({precision}, {scale}) was written, and {to} would lose digits behind the point"
        ))),
        // What was no decimal to the table stays the bytes that it was.
        DataType::Binary => Ok(Step::Bytes(size)),
        DataType::FixedSizeBinary(wanted) if size.is_some() && size == usize::try_from(*wanted).ok() => {
            Ok(Step::Fixed(size.unwrap_or_default()))
        }
        other => Err(refused(&Type::Bytes(Logical::Decimal { precision, scale }), other)),
    }
}

fn refused(of: &Type, to: &DataType) -> Error {
    Error::unsupported(format!("{} was written, which cannot be read as {to}", of.name()))
}
