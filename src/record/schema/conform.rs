//! A batch brought into a schema's columns, order and types, without losing a value.
//!
//! Arrow's own casts truncate where units become coarser or floats shorter; here every value must survive, or the row and the
//! column are named. What types go together at all is `evolve`'s decision.

use crate::error::{Error, Result};
use ::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    new_null_array,
};
use ::arrow::buffer::NullBuffer;
use ::arrow::compute::{CastOptions, cast_with_options};
use ::arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use std::sync::Arc;

pub(super) fn conform(schema: &SchemaRef, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return checked(schema, batch.columns().to_vec(), batch.num_rows());
    }
    let given = batch.schema_ref().fields();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let column = match find(given, field.name()) {
            Some(index) => convert(batch.column(index), field, field.name(), first_row)?,
            None if field.is_nullable() => new_null_array(field.data_type(), batch.num_rows()),
            None => {
                return Err(Error::invalid(format!(
                    "column {:?} is missing, and the table does not let it be null",
                    field.name()
                ))
                .in_column(field.name()));
            }
        };
        columns.push(column);
    }
    checked(schema, columns, batch.num_rows())
}

fn checked(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::invalid(format!("rows do not have the table's columns: {e}")).with_source(e))
}

/// By exact name, else by the only one that differs in case.
fn find(fields: &Fields, name: &str) -> Option<usize> {
    if let Some(exact) = fields.iter().position(|f| f.name() == name) {
        return Some(exact);
    }
    let mut alike = fields.iter().enumerate().filter(|(_, f)| f.name().eq_ignore_ascii_case(name));
    match (alike.next(), alike.next()) {
        (Some((index, _)), None) => Some(index),
        _ => None,
    }
}

/// One column as a type, nulls allowed.
pub(crate) fn retype(array: &ArrayRef, to: &DataType, name: &str, first_row: u64) -> Result<ArrayRef> {
    convert_type(array, to, name, first_row)
}

/// The array as the field's type. `first_row` counts for top-level columns; inside lists rows are items.
fn convert(array: &ArrayRef, field: &Field, path: &str, first_row: u64) -> Result<ArrayRef> {
    let converted = convert_type(array, field.data_type(), path, first_row)?;
    if !field.is_nullable()
        && let Some(nulls) = converted.logical_nulls().filter(|n| n.null_count() > 0)
    {
        let row = nulls.iter().position(|valid| !valid).unwrap_or(0);
        return Err(null_refused(path, first_row + row as u64));
    }
    Ok(converted)
}

fn null_refused(path: &str, row: u64) -> Error {
    let number = row + 1;
    Error::invalid(format!("row {number}, column {path:?}: null, where the table has none"))
        .at_row(number)
        .in_column(path)
}

fn convert_type(array: &ArrayRef, to: &DataType, path: &str, first_row: u64) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    match (array.data_type(), to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (DataType::Struct(_), DataType::Struct(fields)) => convert_struct(array.as_struct(), fields, path, first_row),
        (
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_),
            DataType::List(item),
        ) => convert_list(array, item, path, first_row),
        (DataType::Map(..), DataType::Map(entry, _)) => convert_map(array.as_map(), entry, path, first_row),
        _ => convert_leaf(array, to, path, first_row),
    }
}

fn convert_struct(array: &StructArray, fields: &Fields, path: &str, first_row: u64) -> Result<ArrayRef> {
    let mut columns = Vec::with_capacity(fields.len());
    // A null struct hides what stands in its fields.
    let hidden = array.nulls();
    for field in fields {
        let inner = format!("{path}.{}", field.name());
        let column = match find(array.fields(), field.name()) {
            Some(index) => {
                let column = masked(array.column(index), hidden)?;
                convert_type(&column, field.data_type(), &inner, first_row)?
            }
            None => new_null_array(field.data_type(), array.len()),
        };
        if !field.is_nullable() {
            let valid = |nulls: Option<&NullBuffer>, row| nulls.is_none_or(|n| n.is_valid(row));
            let nulls = column.logical_nulls();
            if let Some(row) = (0..array.len()).find(|row| valid(hidden, *row) && !valid(nulls.as_ref(), *row)) {
                return Err(null_refused(&inner, first_row + row as u64));
            }
        }
        columns.push(column);
    }
    let built = match fields.is_empty() {
        true => Ok(StructArray::new_empty_fields(array.len(), hidden.cloned())),
        false => StructArray::try_new(fields.clone(), columns, hidden.cloned()),
    };
    Ok(Arc::new(built.map_err(|e| Error::invalid(format!("column {path:?}: {e}")).with_source(e))?))
}

/// The column with nulls where its parent is null.
fn masked(column: &ArrayRef, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(parent) = parent.filter(|p| p.null_count() > 0) else { return Ok(column.clone()) };
    let hide = ::arrow::array::BooleanArray::new(!parent.inner(), None);
    ::arrow::compute::nullif(column, &hide).map_err(|e| Error::internal(format!("nulls of a struct: {e}")))
}

fn convert_list(array: &ArrayRef, item: &Arc<Field>, path: &str, first_row: u64) -> Result<ArrayRef> {
    let failed = |e: ::arrow::error::ArrowError| Error::invalid(format!("column {path:?}: {e}")).with_source(e);
    let list = match array.data_type() {
        DataType::List(_) => array.clone(),
        DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner) => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(array, &DataType::List(inner.clone()), &options).map_err(failed)?
        }
        other => return Err(Error::internal(format!("{other} is no list"))),
    };
    let list: &ListArray = list.as_list();
    let values = convert(list.values(), item, &format!("{path}.element"), first_row)?;
    let built = ListArray::try_new(item.clone(), list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(built.map_err(failed)?))
}

fn convert_map(map: &MapArray, entry: &Arc<Field>, path: &str, first_row: u64) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entry.data_type() else {
        return Err(Error::internal("a map without keys and values"));
    };
    let [key, value] = fields.as_ref() else { return Err(Error::internal("a map without keys and values")) };
    let keys = convert(map.keys(), key, &format!("{path}.key"), first_row)?;
    let values = convert(map.values(), value, &format!("{path}.value"), first_row)?;
    let failed = |e: ::arrow::error::ArrowError| Error::invalid(format!("column {path:?}: {e}")).with_source(e);
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(failed)?;
    let built = MapArray::try_new(entry.clone(), map.offsets().clone(), entries, map.nulls().cloned(), false);
    Ok(Arc::new(built.map_err(failed)?))
}

fn convert_leaf(array: &ArrayRef, to: &DataType, path: &str, first_row: u64) -> Result<ArrayRef> {
    let from = array.data_type().clone();
    if let (DataType::FixedSizeBinary(_), DataType::Binary) = (&from, to) {
        let fixed: &FixedSizeBinaryArray = array.as_fixed_size_binary();
        return Ok(Arc::new(fixed.iter().collect::<::arrow::array::BinaryArray>()));
    }
    if !may_convert(&from, to) {
        return Err(Error::invalid(format!("column {path:?}: {from} where the table has {to}")).in_column(path));
    }
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    let failed = |e: ::arrow::error::ArrowError| Error::invalid(format!("column {path:?}: {e}")).with_source(e);
    let converted = cast_with_options(array, to, &lenient).map_err(failed)?;
    // A value that the cast could not take is null now.
    let lost = if may_lose(&from, to) {
        let back = cast_with_options(&converted, &from, &lenient).map_err(failed)?;
        first_difference(array, &back)
    } else {
        first_null(array, &converted)
    };
    match lost {
        None => Ok(converted),
        Some(row) => {
            let shown = ::arrow::util::display::array_value_to_string(array, row);
            let (number, value) = (first_row + row as u64 + 1, shown.unwrap_or_else(|_| "the value".to_owned()));
            Err(Error::invalid(format!("row {number}, column {path:?}: {value} does not fit {to}"))
                .at_row(number)
                .in_column(path))
        }
    }
}

/// Pairs that `evolve` lets through, and what stored files and codecs hand us in other widths.
fn may_convert(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (Dictionary(_, values), _) => may_convert(values, to) || **values == *to,
        // The wide decimals are what whole numbers are read as from text.
        (_, Int32 | Int64) => from.is_integer() || matches!(from, Decimal256(..)),
        (_, Float32) => matches!(from, Float16 | Float32),
        (_, Float64) => from.is_integer() || from.is_floating(),
        (_, Utf8) => matches!(from, LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView),
        (_, Binary) => matches!(from, LargeBinary | BinaryView | Utf8 | LargeUtf8 | Utf8View),
        (_, Date32) => matches!(from, Date64),
        (_, Time32(_)) => matches!(from, Time32(_) | Time64(_)),
        (_, Time64(_)) => matches!(from, Time32(_) | Time64(_)),
        (Timestamp(_, from), Timestamp(_, to)) => from.is_some() == to.is_some(),
        (_, Decimal128(..)) => {
            from.is_integer() || matches!(from, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
        }
        _ => false,
    }
}

/// Casts that can change a value without making it null.
fn may_lose(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let unit = |t: &DataType| match t {
        Time32(u) | Time64(u) | Timestamp(u, _) => match u {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        },
        _ => 0,
    };
    match (from, to) {
        (Int64 | UInt32 | UInt64, Float64) | (Date64, Date32) | (Decimal256(..), Int32 | Int64) => true,
        (Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s), Decimal128(_, t)) => s > t,
        _ => unit(from) > unit(to),
    }
}

fn first_null(before: &ArrayRef, after: &ArrayRef) -> Option<usize> {
    if after.logical_null_count() == before.logical_null_count() {
        return None;
    }
    let (before, after) = (before.logical_nulls(), after.logical_nulls());
    let valid = |nulls: &Option<NullBuffer>, row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
    let rows = after.as_ref().map_or(0, NullBuffer::len);
    (0..rows).find(|row| valid(&before, *row) && !valid(&after, *row))
}

fn first_difference(before: &ArrayRef, after: &ArrayRef) -> Option<usize> {
    let same = ::arrow::compute::kernels::cmp::not_distinct(before, after).ok();
    match same {
        None => Some(0),
        Some(same) if same.true_count() == same.len() => None,
        Some(same) => (0..same.len()).find(|row| !same.value(*row)),
    }
}
