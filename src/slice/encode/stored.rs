//! Decimals in a `fixed` that is longer than they need: the Parquet library writes only the shortest, so that these are handed to
//! it as the bytes that they are stored as.

use crate::error::{Error, Result};
use crate::record::schema::decimal_bytes;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Fields, Schema};
use arrow::error::ArrowError;
use parquet::basic::Type as Physical;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use std::sync::Arc;

/// The schema with bytes in the place of such decimals.
pub(super) fn schema(schema: &Schema, parquet: &SchemaDescriptor) -> Schema {
    let mut leaves = parquet.columns().iter();
    Schema::new(schema.fields().iter().map(|f| field(f, &mut leaves)).collect::<Fields>())
}

fn field<'p>(of: &FieldRef, leaves: &mut impl Iterator<Item = &'p ColumnDescPtr>) -> FieldRef {
    Arc::new(Field::new(of.name(), ty(of.data_type(), leaves), of.is_nullable()))
}

fn ty(of: &DataType, leaves: &mut dyn Iterator<Item = &ColumnDescPtr>) -> DataType {
    let mut leaves = leaves;
    match of {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|f| field(f, &mut leaves)).collect()),
        DataType::List(item) => DataType::List(field(item, &mut leaves)),
        DataType::Map(entries, sorted) => DataType::Map(field(entries, &mut leaves), *sorted),
        leaf => match (leaf, leaves.next()) {
            (DataType::Decimal128(precision, _), Some(column))
                if column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
                    && column.type_length() != decimal_bytes(*precision) as i32 =>
            {
                DataType::FixedSizeBinary(column.type_length())
            }
            _ => leaf.clone(),
        },
    }
}

/// Values as `to` has them.
pub(super) fn convert(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if values.data_type() == to {
        return Ok(values.clone());
    }
    let failed = |e: ArrowError| Error::internal(format!("decimals could not be stored: {e}")).with_source(e);
    Ok(match (values.data_type(), to) {
        (DataType::Decimal128(..), DataType::FixedSizeBinary(len)) => decimals(values, *len)?,
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let group = values.as_struct();
            let columns = group.columns().iter().zip(fields);
            let columns = columns.map(|(c, f)| convert(c, f.data_type())).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, group.nulls().cloned()).map_err(failed)?)
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = values.as_list::<i32>();
            let items = convert(list.values(), item.data_type())?;
            let built = ListArray::try_new(item.clone(), list.offsets().clone(), items, list.nulls().cloned());
            Arc::new(built.map_err(failed)?)
        }
        (DataType::Map(..), DataType::Map(entry, sorted)) => {
            let map = values.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = convert(&entries, entry.data_type())?.as_struct().clone();
            let built = MapArray::try_new(entry.clone(), map.offsets().clone(), entries, map.nulls().cloned(), *sorted);
            Arc::new(built.map_err(failed)?)
        }
        // Names of items do not matter to the encoder.
        _ => values.clone(),
    })
}

/// Big-endian two's complement, widened with the sign.
fn decimals(values: &ArrayRef, len: i32) -> Result<ArrayRef> {
    let values = values.as_primitive::<Decimal128Type>();
    let size = usize::try_from(len).map_err(|_| Error::internal(format!("a decimal of {len} bytes")))?;
    let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), len);
    for value in values {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        let narrow = value.to_be_bytes();
        let mut wide = vec![if value < 0 { 0xff } else { 0 }; size.max(narrow.len())];
        let start = wide.len() - narrow.len();
        wide.get_mut(start..).unwrap_or_default().copy_from_slice(&narrow);
        let bytes = wide.get(wide.len() - size..).unwrap_or_default();
        builder.append_value(bytes).map_err(|e| Error::internal(format!("decimals could not be stored: {e}")))?;
    }
    Ok(Arc::new(builder.finish()))
}
