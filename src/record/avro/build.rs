//! [`Column`]: an Arrow column of any supported type that grows by one value at a time.

use crate::error::{Error, Result};
use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder,
    Float64Builder, Int32Builder, Int64Builder, ListArray, MapArray, NullArray, NullBufferBuilder, StringBuilder,
    StructArray, make_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use std::sync::Arc;

/// A growing column.
pub(super) enum Column {
    Null(usize),
    Boolean(BooleanBuilder),
    /// Any type of 32 bits, and which.
    Word32(Int32Builder, DataType),
    /// Any type of 64 bits, and which.
    Word64(Int64Builder, DataType),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Utf8(StringBuilder),
    Binary(BinaryBuilder),
    Fixed(FixedSizeBinaryBuilder),
    Decimal(Decimal128Builder),
    List(Repeated, FieldRef),
    Map(Repeated, FieldRef, bool),
    Struct(Group),
}

/// What a list and a map have in common; the items of a map are its entries.
pub(super) struct Repeated {
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    pub items: Box<Column>,
}

/// The columns of a struct.
pub(super) struct Group {
    fields: Fields,
    nulls: NullBufferBuilder,
    len: usize,
    pub columns: Vec<Column>,
}

impl Column {
    /// An empty column; `Unsupported` for types that no table has.
    pub fn new(data_type: &DataType, rows: usize) -> Result<Column> {
        Ok(match data_type {
            DataType::Null => Column::Null(0),
            DataType::Boolean => Column::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                Column::Word32(Int32Builder::with_capacity(rows), data_type.clone())
            }
            DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_) => {
                Column::Word64(Int64Builder::with_capacity(rows), data_type.clone())
            }
            DataType::Float32 => Column::Float32(Float32Builder::with_capacity(rows)),
            DataType::Float64 => Column::Float64(Float64Builder::with_capacity(rows)),
            DataType::Utf8 => Column::Utf8(StringBuilder::new()),
            DataType::Binary => Column::Binary(BinaryBuilder::new()),
            DataType::FixedSizeBinary(size) => Column::Fixed(FixedSizeBinaryBuilder::new(*size)),
            DataType::Decimal128(precision, scale) => {
                let builder = Decimal128Builder::new().with_precision_and_scale(*precision, *scale);
                Column::Decimal(builder.map_err(|e| Error::unsupported(e.to_string()))?)
            }
            DataType::List(item) => Column::List(Repeated::new(item.data_type())?, item.clone()),
            DataType::Map(entries, sorted) => {
                Column::Map(Repeated::new(entries.data_type())?, entries.clone(), *sorted)
            }
            DataType::Struct(fields) => Column::Struct(Group::new(fields)?),
            other => return Err(Error::unsupported(format!("avro rows cannot be read as {other}"))),
        })
    }

    /// Appends a null.
    pub fn null(&mut self) -> Result<()> {
        match self {
            Column::Null(len) => *len += 1,
            Column::Boolean(b) => b.append_null(),
            Column::Word32(b, _) => b.append_null(),
            Column::Word64(b, _) => b.append_null(),
            Column::Float32(b) => b.append_null(),
            Column::Float64(b) => b.append_null(),
            Column::Utf8(b) => b.append_null(),
            Column::Binary(b) => b.append_null(),
            Column::Fixed(b) => b.append_null(),
            Column::Decimal(b) => b.append_null(),
            Column::List(list, _) | Column::Map(list, ..) => list.end(false)?,
            Column::Struct(group) => group.null()?,
        }
        Ok(())
    }

    /// Values so far.
    pub fn len(&self) -> usize {
        match self {
            Column::Null(len) => *len,
            Column::Boolean(b) => arrow::array::ArrayBuilder::len(b),
            Column::Word32(b, _) => arrow::array::ArrayBuilder::len(b),
            Column::Word64(b, _) => arrow::array::ArrayBuilder::len(b),
            Column::Float32(b) => arrow::array::ArrayBuilder::len(b),
            Column::Float64(b) => arrow::array::ArrayBuilder::len(b),
            Column::Utf8(b) => arrow::array::ArrayBuilder::len(b),
            Column::Binary(b) => arrow::array::ArrayBuilder::len(b),
            Column::Fixed(b) => arrow::array::ArrayBuilder::len(b),
            Column::Decimal(b) => arrow::array::ArrayBuilder::len(b),
            Column::List(list, _) | Column::Map(list, ..) => list.offsets.len() - 1,
            Column::Struct(group) => group.len,
        }
    }

    /// Appends text, unless the column's offsets would not reach it.
    pub fn text(builder: &mut StringBuilder, text: &str) -> Result<()> {
        fits(builder.values_slice().len(), text.len())?;
        builder.append_value(text);
        Ok(())
    }

    /// Appends bytes, unless the column's offsets would not reach them.
    pub fn bytes(builder: &mut BinaryBuilder, bytes: &[u8]) -> Result<()> {
        fits(builder.values_slice().len(), bytes.len())?;
        builder.append_value(bytes);
        Ok(())
    }

    /// The column so far; empty afterwards.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match self {
            Column::Null(len) => Arc::new(NullArray::new(std::mem::take(len))),
            Column::Boolean(b) => Arc::new(b.finish()),
            Column::Word32(b, data_type) => retype(&b.finish(), data_type)?,
            Column::Word64(b, data_type) => retype(&b.finish(), data_type)?,
            Column::Float32(b) => Arc::new(b.finish()),
            Column::Float64(b) => Arc::new(b.finish()),
            Column::Utf8(b) => Arc::new(b.finish()),
            Column::Binary(b) => Arc::new(b.finish()),
            Column::Fixed(b) => Arc::new(b.finish()),
            Column::Decimal(b) => Arc::new(b.finish()),
            Column::List(list, item) => {
                let (offsets, nulls, items) = list.finish()?;
                Arc::new(ListArray::try_new(item.clone(), offsets, items, nulls).map_err(shape)?)
            }
            Column::Map(list, entries, sorted) => {
                let (offsets, nulls, items) = list.finish()?;
                let items = items.as_any().downcast_ref::<StructArray>().cloned();
                let items = items.ok_or_else(|| Error::internal("the entries of a map are no struct"))?;
                Arc::new(MapArray::try_new(entries.clone(), offsets, items, nulls, *sorted).map_err(shape)?)
            }
            Column::Struct(group) => Arc::new(group.finish()?),
        })
    }
}

impl Repeated {
    fn new(items: &DataType) -> Result<Repeated> {
        let items = Box::new(Column::new(items, 0)?);
        Ok(Repeated { offsets: vec![0], nulls: NullBufferBuilder::new(0), items })
    }

    /// Ends one list, whose items have been appended.
    pub fn end(&mut self, valid: bool) -> Result<()> {
        let end = i32::try_from(self.items.len()).map_err(|_| too_large())?;
        self.offsets.push(end);
        self.nulls.append(valid);
        Ok(())
    }

    fn finish(&mut self) -> Result<(OffsetBuffer<i32>, Option<arrow::buffer::NullBuffer>, ArrayRef)> {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        // They only grow, as `end` made them.
        Ok((OffsetBuffer::new(offsets.into()), self.nulls.finish(), self.items.finish()?))
    }
}

impl Group {
    fn new(fields: &Fields) -> Result<Group> {
        let column = |f: &FieldRef| Column::new(f.data_type(), 0).map_err(|e| e.context(in_column(f)));
        let columns = fields.iter().map(column).collect::<Result<_>>()?;
        Ok(Group { fields: fields.clone(), nulls: NullBufferBuilder::new(0), len: 0, columns })
    }

    /// Ends one struct, whose columns have been appended to.
    pub fn end(&mut self, valid: bool) {
        self.nulls.append(valid);
        self.len += 1;
    }

    fn null(&mut self) -> Result<()> {
        self.columns.iter_mut().try_for_each(Column::null)?;
        self.end(false);
        Ok(())
    }

    fn finish(&mut self) -> Result<StructArray> {
        let len = std::mem::take(&mut self.len);
        let nulls = self.nulls.finish();
        let columns = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        StructArray::try_new_with_length(self.fields.clone(), columns, nulls, len).map_err(shape)
    }
}

/// How messages name a column.
pub(super) fn in_column(field: &Field) -> String {
    format!("column {:?}", field.name())
}

fn retype(array: &dyn Array, data_type: &DataType) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(data_type.clone()).build().map_err(shape)?;
    Ok(make_array(data))
}

fn fits(held: usize, more: usize) -> Result<()> {
    if held.checked_add(more).is_some_and(|total| total <= i32::MAX as usize) { Ok(()) } else { Err(too_large()) }
}

fn too_large() -> Error {
    Error::unsupported("more than 2 GiB in one column of one batch of rows")
}

/// What Arrow refuses here is a null where the schema has none.
fn shape(error: arrow::error::ArrowError) -> Error {
    Error::corrupt(format!("rows do not fit their schema: {error}")).with_source(error)
}
