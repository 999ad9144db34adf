//! Rows as files have them, brought to the table's schema: columns by name, in the table's order and types.
//!
//! Types widen as the table's did when it evolved. Numbers and times are converted, with one exception that Hudi makes too:
//! microseconds in a file of a table that has milliseconds are milliseconds under a wrong name, which old releases wrote, and a
//! plain number where the table has a timestamp is that timestamp.

use crate::error::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, StructArray, make_array, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef, TimeUnit};
use std::sync::Arc;

/// The columns of `schema`; those that the rows lack are null.
pub(in crate::slice) fn adapt(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let found = batch.schema_ref().fields();
    let columns = schema.fields().iter().map(|field| {
        let at = found.iter().position(|f| f.name() == field.name());
        match at.and_then(|i| batch.columns().get(i)) {
            Some(column) => to(column, field),
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(shape)
}

fn to(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let (from, wanted) = (column.data_type(), field.data_type());
    if from == wanted {
        return Ok(column.clone());
    }
    converted(column, wanted).map_err(|e| e.in_column(field.name()))
}

fn converted(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    use DataType as D;
    match (column.data_type(), wanted) {
        (D::Struct(from), D::Struct(fields)) => structs(column.as_struct(), from, fields),
        (D::List(_), D::List(item)) => {
            let list = column.as_list::<i32>();
            let items = to(list.values(), item)?;
            let list = ListArray::try_new(item.clone(), list.offsets().clone(), items, list.nulls().cloned());
            Ok(Arc::new(list.map_err(shape)?))
        }
        (D::Map(..), D::Map(entries, sorted)) => maps(column.as_map(), entries, *sorted),
        (D::Timestamp(TimeUnit::Microsecond, _), D::Timestamp(TimeUnit::Millisecond, _)) => renamed(column, wanted),
        (D::Int64, D::Timestamp(..)) => renamed(column, wanted),
        // A zone more or less changes no number.
        (D::Timestamp(a, _), D::Timestamp(b, _)) if a == b => renamed(column, wanted),
        (from, wanted) if widens(from, wanted) => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(column, wanted, &options).map_err(|e| Error::unsupported(e.to_string()).with_source(e))
        }
        (from, wanted) => Err(Error::unsupported(format!("{from} in the file where the table has {wanted}"))),
    }
}

/// Conversions that keep every value.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    match (from, to) {
        (D::Dictionary(_, values), to) => **values == *to || widens(values, to),
        (D::Int8 | D::Int16 | D::UInt8 | D::UInt16, D::Int32 | D::Int64 | D::Float32 | D::Float64) => true,
        (D::Int32 | D::UInt32, D::Int64 | D::Float32 | D::Float64) => true,
        (D::Int64, D::Float32 | D::Float64) | (D::Float32, D::Float64) => true,
        (D::Int8 | D::Int16 | D::Int32 | D::Int64 | D::Boolean | D::Float32 | D::Float64, D::Utf8) => true,
        (D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView, D::Utf8) => true,
        (D::Utf8 | D::LargeUtf8 | D::Utf8View | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_), D::Binary) => {
            true
        }
        (D::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _), D::Timestamp(..)) => true,
        (D::Time32(_), D::Time64(_)) => true,
        (D::Decimal32(..) | D::Decimal64(..), D::Decimal128(..)) => true,
        (D::Decimal128(precision, scale), D::Decimal128(wider, to_scale)) => {
            to_scale >= scale && i16::from(*wider) - i16::from(*to_scale) >= i16::from(*precision) - i16::from(*scale)
        }
        _ => false,
    }
}

/// The same numbers under another type of their width.
fn renamed(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    column.to_data().into_builder().data_type(wanted.clone()).build().map(make_array).map_err(shape)
}

fn structs(group: &StructArray, from: &Fields, fields: &Fields) -> Result<ArrayRef> {
    let columns = fields.iter().map(|field| match from.iter().position(|f| f.name() == field.name()) {
        Some(at) => to(group.column(at), field),
        None => Ok(new_null_array(field.data_type(), group.len())),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let group = StructArray::try_new_with_length(fields.clone(), columns, group.nulls().cloned(), group.len());
    Ok(Arc::new(group.map_err(shape)?))
}

/// Keys and values by place: their names differ from writer to writer.
fn maps(map: &MapArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef> {
    let DataType::Struct(pair) = entries.data_type() else { return Err(Error::internal("a map without entries")) };
    let columns = map.entries().columns().iter().zip(pair).map(|(column, field)| to(column, field));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let pairs = StructArray::try_new(pair.clone(), columns, None).map_err(shape)?;
    let map = MapArray::try_new(entries.clone(), map.offsets().clone(), pairs, map.nulls().cloned(), sorted);
    Ok(Arc::new(map.map_err(shape)?))
}

/// What Arrow refuses here is a null where the table has none.
fn shape(error: arrow::error::ArrowError) -> Error {
    Error::corrupt(format!("rows do not fit the table's schema: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Schema;

    fn one(column: ArrayRef, wanted: DataType) -> Result<ArrayRef> {
        let from = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(from, vec![column]).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("c", wanted, true)]));
        adapt(&batch, &schema).map(|b| b.column(0).clone())
    }

    #[test]
    fn values_keep_their_meaning() {
        let micros = |v: i64| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![v]).with_timezone("UTC")) };
        let millis = |v: i64| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(vec![v]).with_timezone("UTC")) };
        let int: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let long: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
        let (to_micros, to_millis) = (micros(0).data_type().clone(), millis(0).data_type().clone());
        assert_eq!(&one(int.clone(), DataType::Int64).unwrap(), &long);
        assert_eq!(&one(long.clone(), DataType::Utf8).unwrap(), &text);
        assert_eq!(&one(millis(7), to_micros.clone()).unwrap(), &micros(7000));
        // Old releases wrote milliseconds as microseconds.
        assert_eq!(&one(micros(7), to_millis).unwrap(), &millis(7));
        assert_eq!(&one(long.clone(), to_micros).unwrap(), &micros(7));
        let error = one(long, DataType::Int32).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        assert_eq!(error.place().column.as_deref(), Some("c"));
    }

    #[test]
    fn nested_columns_meet_by_name() {
        let from =
            Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("gone", DataType::Int32, true)]);
        let column = || -> ArrayRef { Arc::new(Int32Array::from(vec![1, 2])) };
        let group = StructArray::new(from.clone(), vec![column(), column()], None);
        let item = Arc::new(Field::new("array", DataType::Struct(from), false));
        let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2]), Arc::new(group), None));
        let fields = vec![Field::new("later", DataType::Utf8, true), Field::new("x", DataType::Int64, true)];
        let wanted = DataType::List(Arc::new(Field::new("element", DataType::Struct(fields.into()), true)));
        let read = one(list, wanted.clone()).unwrap();
        assert_eq!(read.data_type(), &wanted);
        let items = read.as_list::<i32>().value(0);
        assert_eq!(items.as_struct().column(0).null_count(), 2);
        assert_eq!(items.as_struct().column(1).as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
    }
}
