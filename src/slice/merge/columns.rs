//! The columns of the next version of a base file.
//!
//! A column that the file has in a form which holds the table's values keeps that form, so that its chunks can be copied as they
//! are: lists of two levels and other ways of writing that Java has. Any other column (new, widened, or one that must hold nulls
//! now) gets the table's form, and all its chunks are made anew. So do decimals that Spark's own writer stored as integers: the
//! footer's Avro schema says bytes of a fixed length, and Hudi's readers that go by it take such integers for whole numbers.

use super::incoming::Incoming;
use crate::error::{Error, Result};
use crate::record::TableSchema;
use crate::record::schema::retype;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use std::sync::Arc;

/// The columns of the new file, and where they come from.
pub(super) struct Columns {
    pub arrow: SchemaRef,
    pub parquet: SchemaDescPtr,
    pub sources: Vec<Source>,
    /// The incoming rows, in the new file's types.
    pub incoming: Vec<ArrayRef>,
}

/// Where a column comes from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The column in the old file.
    pub old: Option<usize>,
    /// Its chunks can be copied.
    pub is_kept: bool,
}

impl Columns {
    pub fn new(old: &ParquetMetaData, schema: &TableSchema, incoming: &Incoming) -> Result<Columns> {
        let descriptor = old.file_metadata().schema_descr();
        let held = parquet_to_arrow_schema(descriptor, None)
            .map_err(|e| Error::unsupported(format!("columns that are not understood: {e}")).with_source(e))?;
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut types = Vec::new();
        let mut sources = Vec::new();
        let mut arrays = Vec::new();
        for (index, field) in schema.with_meta().fields().iter().enumerate() {
            let place = held.index_of(field.name()).ok();
            let array = incoming.batch.column(index);
            let kept = place.and_then(|place| {
                let form = held.fields().get(place)?;
                let ty = descriptor.root_schema().get_fields().get(place)?;
                Some((form.clone(), ty.clone(), kept_form(form, field, ty, array)?))
            });
            let is_kept = kept.is_some();
            let own = schema.parquet().root_schema().get_fields().get(index).cloned();
            let own = own.ok_or_else(|| Error::internal("a column without its Parquet form"))?;
            let (field, ty, array) = kept.unwrap_or_else(|| (field.clone(), own, array.clone()));
            fields.push(field);
            types.push(ty);
            arrays.push(array);
            sources.push(Source { old: place, is_kept });
        }
        let name = schema.parquet().root_schema().name();
        let message = Type::group_type_builder(name).with_fields(types).build();
        let message = message.map_err(|e| Error::internal(format!("a schema that Parquet refuses: {e}")))?;
        Ok(Columns {
            arrow: Arc::new(Schema::new(fields)),
            parquet: Arc::new(SchemaDescriptor::new(Arc::new(message))),
            sources,
            incoming: arrays,
        })
    }
}

impl Columns {
    /// True if a column has another form than in the old file, or is not in it.
    pub fn is_reformed(&self) -> bool {
        self.sources.iter().any(|s| !s.is_kept)
    }
}

/// The incoming values in the form that the file has, if that form can stay.
fn kept_form(form: &Field, table: &Field, ty: &Type, incoming: &ArrayRef) -> Option<ArrayRef> {
    if !holds(form.data_type(), table.data_type()) || !is_written(ty) {
        return None;
    }
    if !form.is_nullable() && incoming.logical_null_count() > 0 {
        return None;
    }
    // Fails where a list may not have null items, or a field may not be null.
    retype(incoming, form.data_type(), form.name(), 0).ok()
}

/// A form of values that can hold those of the table's type; names of items and what may be null do not count here.
fn holds(form: &DataType, table: &DataType) -> bool {
    let fields = |a: &Fields, b: &Fields| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && holds(a.data_type(), b.data_type()))
    };
    match (form, table) {
        (DataType::List(a), DataType::List(b)) => holds(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => fields(a, b),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (a.data_type(), b.data_type()) {
            (DataType::Struct(a), DataType::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| holds(a.data_type(), b.data_type()))
            }
            _ => false,
        },
        // Enums, and text that old writers did not mark as such.
        (DataType::Binary, DataType::Utf8) => true,
        (a, b) => a == b,
    }
}

/// False for physical forms that are not written here.
fn is_written(ty: &Type) -> bool {
    if !ty.is_primitive() {
        return ty.get_fields().iter().all(|f| is_written(f));
    }
    let Type::PrimitiveType { physical_type, precision, .. } = ty else { return false };
    let is_decimal = *precision > 0;
    match physical_type {
        Physical::INT96 => false,
        Physical::INT32 | Physical::INT64 | Physical::BYTE_ARRAY => !is_decimal,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::parser::parse_message_type;

    #[test]
    fn decimals_stay_only_in_the_form_that_avro_has() {
        let text = "message m { optional int64 a (DECIMAL(10,2)); optional int32 b (DECIMAL(5,2)); optional binary c (DECIMAL(10,2));
            optional fixed_len_byte_array(5) d (DECIMAL(10,2)); optional int64 e; optional int96 f;
            optional group g { optional int64 h (DECIMAL(10,2)); } }";
        let message = parse_message_type(text).unwrap();
        let kept: Vec<&str> = message.get_fields().iter().filter(|f| is_written(f)).map(|f| f.name()).collect();
        assert_eq!(kept, ["d", "e"]);
    }
}
