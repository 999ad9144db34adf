//! [`Type`] to Arrow and back.
//!
//! Children of lists and maps are named as in Parquet's standard form (`element`, `key_value`), so that what is written by
//! Arrow's names is standard Parquet.

use super::types::{Field, Record, Slot, Type, decimal_bytes};
use crate::error::{Error, Result};
use arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Fields, Schema, TimeUnit};
use std::sync::Arc;

/// The time zone of timestamps that are moments.
const UTC: &str = "UTC";
/// Deepest nesting of Arrow types.
const DEPTH_MAX: usize = 64;
/// Most digits of a decimal.
const PRECISION_MAX: u8 = 38;

/// The Arrow fields of a record's.
pub(super) fn fields_to_arrow(record: &Record) -> Fields {
    record.fields.iter().map(|f| slot_to_arrow(&f.name, &f.slot)).collect()
}

fn slot_to_arrow(name: &str, slot: &Slot) -> FieldRef {
    Arc::new(ArrowField::new(name, type_to_arrow(&slot.ty), slot.nullable))
}

pub(super) fn type_to_arrow(ty: &Type) -> DataType {
    let utc = || Some(Arc::from(UTC));
    match ty {
        Type::Boolean => DataType::Boolean,
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Bytes => DataType::Binary,
        Type::String | Type::Uuid | Type::Enum(..) => DataType::Utf8,
        Type::Date => DataType::Date32,
        Type::TimeMillis => DataType::Time32(TimeUnit::Millisecond),
        Type::TimeMicros => DataType::Time64(TimeUnit::Microsecond),
        Type::TimestampMillis => DataType::Timestamp(TimeUnit::Millisecond, utc()),
        Type::TimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        Type::LocalTimestampMillis => DataType::Timestamp(TimeUnit::Millisecond, None),
        Type::LocalTimestampMicros => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Decimal { precision, scale, .. } => DataType::Decimal128(*precision, *scale as i8),
        Type::Fixed(_, size) => DataType::FixedSizeBinary(i32::try_from(*size).unwrap_or(i32::MAX)),
        Type::Array(items) => DataType::List(slot_to_arrow("element", items)),
        Type::Map(values) => {
            let key = Arc::new(ArrowField::new("key", DataType::Utf8, false));
            let entry = DataType::Struct(Fields::from(vec![key, slot_to_arrow("value", values)]));
            DataType::Map(Arc::new(ArrowField::new("key_value", entry, false)), false)
        }
        Type::Record(record) => DataType::Struct(fields_to_arrow(record)),
    }
}

/// A record of Arrow columns; `record_name` is its full name, from which those of nested types are made as Spark's are.
pub(super) fn record_from_arrow<'f>(
    fields: impl Iterator<Item = &'f FieldRef>,
    record_name: &str,
    depth: usize,
) -> Result<Record> {
    let mut record = Record { name: record_name.to_owned(), fields: Vec::new() };
    for field in fields {
        check_name(field.name())?;
        let slot = field_from_arrow(field, field.name(), record_name, depth)
            .map_err(|e| e.context(format!("column {:?}", field.name())))?;
        let default = slot.nullable.then_some(serde_json::Value::Null);
        record.fields.push(Field { name: field.name().clone(), slot, default, doc: None });
    }
    Ok(record)
}

/// One column: `name` is the column's, `namespace` the full name of the record that it stands in.
pub(super) fn field_from_arrow(field: &ArrowField, name: &str, namespace: &str, depth: usize) -> Result<Slot> {
    let ty = type_from_arrow(field.data_type(), name, namespace, depth)?;
    Ok(Slot { ty, nullable: field.is_nullable(), null_last: false })
}

fn type_from_arrow(data_type: &DataType, name: &str, namespace: &str, depth: usize) -> Result<Type> {
    if depth > DEPTH_MAX {
        return Err(Error::unsupported(format!("more than {DEPTH_MAX} levels of nesting")));
    }
    let full = || format!("{namespace}.{name}");
    Ok(match data_type {
        DataType::Boolean => Type::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => Type::Int,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Type::Long,
        DataType::Float16 | DataType::Float32 => Type::Float,
        DataType::Float64 => Type::Double,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytes,
        DataType::FixedSizeBinary(size) if *size > 0 => Type::Fixed(format!("{}.fixed", full()), *size as usize),
        DataType::Date32 | DataType::Date64 => Type::Date,
        DataType::Time32(_) => Type::TimeMillis,
        DataType::Time64(_) => Type::TimeMicros,
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => match zone {
            Some(_) => Type::TimestampMillis,
            None => Type::LocalTimestampMillis,
        },
        DataType::Timestamp(_, Some(_)) => Type::TimestampMicros,
        DataType::Timestamp(_, None) => Type::LocalTimestampMicros,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if (1..=PRECISION_MAX).contains(precision) && (0..=*precision as i8).contains(scale) =>
        {
            let fixed = Some((format!("{}.fixed", full()), decimal_bytes(*precision)));
            Type::Decimal { precision: *precision, scale: *scale as u8, fixed }
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => Type::Array(Box::new(field_from_arrow(item, name, namespace, depth + 1)?)),
        DataType::Map(entry, _) => match entry.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] if is_text(key.data_type()) => {
                    Type::Map(Box::new(field_from_arrow(value, name, namespace, depth + 1)?))
                }
                _ => return Err(Error::unsupported("a map whose keys are no strings")),
            },
            _ => return Err(Error::invalid("a map without keys and values")),
        },
        DataType::Struct(fields) if !fields.is_empty() => {
            Type::Record(record_from_arrow(fields.iter(), &full(), depth + 1)?)
        }
        DataType::Dictionary(_, values) => type_from_arrow(values, name, namespace, depth + 1)?,
        DataType::Null => {
            return Err(Error::invalid("no row has a value, so that its type is not known")
                .with_hint("leave the column out, or send it with a type (Arrow, Parquet)"));
        }
        other => return Err(Error::unsupported(format!("type {other} is none that Hudi has"))),
    })
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Avro's rule for names, which Java checks when it reads them.
pub(super) fn check_name(name: &str) -> Result<()> {
    let mut chars = name.chars();
    let good = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    match good {
        true => Ok(()),
        false => Err(Error::invalid(format!("column {name:?} has a name that Avro, and so Hudi, does not allow"))
            .with_hint("names are letters, digits and underscores, and do not begin with a digit")),
    }
}

/// The full name of a table's record, as Java makes it.
pub(super) fn record_name(table: &str) -> String {
    let mut name = String::with_capacity(table.len());
    for (index, c) in table.chars().enumerate() {
        match c.is_ascii_alphabetic() || c == '_' || (index > 0 && c.is_ascii_digit()) {
            true => name.push(c),
            false => name.push_str("__"),
        }
    }
    format!("hoodie.{name}.{name}_record")
}

/// The columns of an Arrow schema that are the user's.
pub(super) fn user_fields(schema: &Schema) -> impl Iterator<Item = &FieldRef> {
    schema.fields().iter().filter(|f| !super::is_meta(f.name()))
}
