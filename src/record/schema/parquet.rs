//! [`Type`] to Parquet: the columns that Java writes for it.
//!
//! Lists have the standard three levels, which every reader of Hudi's files understands; Java's default of two cannot hold
//! null elements. Timestamps are 64-bit integers, decimals `fixed` of the Avro type's size.

use super::types::{Record, Slot, Type as ColumnType, decimal_bytes};
use crate::error::{Error, Result};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use std::sync::Arc;

/// The message of a record's columns.
pub(super) fn message(record: &Record) -> Result<SchemaDescPtr> {
    let fields = record.fields.iter().map(|f| column(&f.name, &f.slot)).collect::<Result<Vec<_>>>()?;
    let message = Type::group_type_builder(&record.name).with_fields(fields).build().map_err(broken)?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(message))))
}

fn column(name: &str, slot: &Slot) -> Result<TypePtr> {
    let repetition = if slot.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let group = |logical: Option<LogicalType>, fields: Vec<TypePtr>| {
        Type::group_type_builder(name)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_fields(fields)
            .build()
    };
    let repeated = |name: &str, fields: Vec<TypePtr>| {
        Type::group_type_builder(name).with_repetition(Repetition::REPEATED).with_fields(fields).build().map(Arc::new)
    };
    let built = match &slot.ty {
        ColumnType::Array(items) => {
            let list = repeated("list", vec![column("element", items)?]).map_err(broken)?;
            group(Some(LogicalType::List), vec![list])
        }
        ColumnType::Map(values) => {
            let key = column("key", &Slot::required(ColumnType::String))?;
            let entries = repeated("key_value", vec![key, column("value", values)?]).map_err(broken)?;
            group(Some(LogicalType::Map), vec![entries])
        }
        ColumnType::Record(record) => {
            let fields = record.fields.iter().map(|f| column(&f.name, &f.slot)).collect::<Result<Vec<_>>>()?;
            group(None, fields)
        }
        leaf => return primitive(name, leaf, repetition),
    };
    Ok(Arc::new(built.map_err(broken)?))
}

fn primitive(name: &str, ty: &ColumnType, repetition: Repetition) -> Result<TypePtr> {
    let (physical, logical, length) = match ty {
        ColumnType::Boolean => (Physical::BOOLEAN, None, 0),
        ColumnType::Int => (Physical::INT32, None, 0),
        ColumnType::Long => (Physical::INT64, None, 0),
        ColumnType::Float => (Physical::FLOAT, None, 0),
        ColumnType::Double => (Physical::DOUBLE, None, 0),
        ColumnType::Bytes => (Physical::BYTE_ARRAY, None, 0),
        ColumnType::String | ColumnType::Uuid => (Physical::BYTE_ARRAY, Some(LogicalType::String), 0),
        ColumnType::Enum(..) => (Physical::BYTE_ARRAY, Some(LogicalType::Enum), 0),
        ColumnType::Date => (Physical::INT32, Some(LogicalType::Date), 0),
        ColumnType::TimeMillis => (Physical::INT32, Some(LogicalType::time(true, TimeUnit::MILLIS)), 0),
        ColumnType::TimeMicros => (Physical::INT64, Some(LogicalType::time(true, TimeUnit::MICROS)), 0),
        ColumnType::TimestampMillis => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS)), 0),
        ColumnType::TimestampMicros => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)), 0),
        ColumnType::LocalTimestampMillis => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MILLIS)), 0),
        ColumnType::LocalTimestampMicros => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MICROS)), 0),
        ColumnType::Decimal { precision, scale, fixed } => {
            let logical = LogicalType::decimal(i32::from(*scale), i32::from(*precision));
            let bytes = fixed.as_ref().map_or_else(|| decimal_bytes(*precision), |(_, size)| *size);
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(logical), i32::try_from(bytes).unwrap_or(i32::MAX))
        }
        ColumnType::Fixed(_, size) => (Physical::FIXED_LEN_BYTE_ARRAY, None, i32::try_from(*size).unwrap_or(i32::MAX)),
        other => return Err(Error::internal(format!("{other} is no leaf"))),
    };
    let (precision, scale) = match ty {
        ColumnType::Decimal { precision, scale, .. } => (i32::from(*precision), i32::from(*scale)),
        _ => (-1, -1),
    };
    let builder = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_length(length)
        .with_precision(precision)
        .with_scale(scale);
    Ok(Arc::new(builder.build().map_err(broken)?))
}

fn broken(error: parquet::errors::ParquetError) -> Error {
    Error::internal(format!("a schema that Parquet refuses: {error}")).with_source(error)
}
