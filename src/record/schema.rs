//! [`TableSchema`]: a table's columns, as Avro, as Arrow and as Parquet.
//!
//! Hudi keeps schemas as Avro JSON: in commits (`extraMetadata.schema`), in `hoodie.table.create.schema`, in footers of base
//! files and headers of log blocks. Rows are Arrow here, and Parquet on disk. One value holds all three, so that they cannot
//! disagree; names and namespaces of nested types are kept as they were read, or made as Java makes them.
//! Meta columns are never part of it: [`TableSchema::with_meta`] and its like put them before the others.

mod arrow;
mod conform;
mod evolve;
mod parquet;
mod parse;
mod render;
mod resolve;
mod types;

#[cfg(test)]
mod tests;

use super::{META_COLUMNS, OPERATION_COLUMN};
use crate::error::{Error, Result};
use ::arrow::array::RecordBatch;
use ::arrow::datatypes::{Schema, SchemaRef};
use ::parquet::schema::types::SchemaDescPtr;
use std::sync::Arc;
use types::{Field, Record, Type};

pub(crate) use conform::retype;
pub use resolve::{of_parquet, of_snapshot};
pub(crate) use types::decimal_bytes;

/// The columns of a table, without meta columns. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TableSchema(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    record: Record,
    arrow: SchemaRef,
    with_meta: SchemaRef,
    parquet: SchemaDescPtr,
    avro: String,
    avro_with_meta: String,
}

impl TableSchema {
    /// From Avro JSON; meta columns are left out. Errors name the field.
    pub fn from_avro(json: &str) -> Result<TableSchema> {
        let mut record = parse::parse(json).map_err(|e| e.context("avro schema"))?;
        record.fields.retain(|f| !is_meta(&f.name));
        Self::new(record)
    }

    /// From Arrow, with the names of types that Java would give in a table of that name; meta columns are left out.
    ///
    /// Errors: `Invalid` for names that Avro does not allow, `Unsupported` for types that Hudi has not.
    pub fn from_arrow(schema: &Schema, table_name: &str) -> Result<TableSchema> {
        let name = arrow::record_name(table_name);
        let record = arrow::record_from_arrow(arrow::user_fields(schema), &name, 0)?;
        refuse_twins(&record)?;
        Self::new(record)
    }

    fn new(record: Record) -> Result<TableSchema> {
        if record.fields.is_empty() {
            return Err(Error::invalid("a table's schema needs at least one column"));
        }
        let mut whole = record.clone();
        whole.fields.splice(
            0..0,
            META_COLUMNS.iter().map(|name| {
                let field = Field::nullable(name, Type::String);
                Field { doc: Some(String::new()), ..field }
            }),
        );
        Ok(TableSchema(Arc::new(Inner {
            arrow: Arc::new(Schema::new(arrow::fields_to_arrow(&record))),
            with_meta: Arc::new(Schema::new(arrow::fields_to_arrow(&whole))),
            parquet: parquet::message(&whole)?,
            avro: render::render(&record)?,
            avro_with_meta: render::render(&whole)?,
            record,
        })))
    }

    /// The user columns as Arrow: what the rows of [`super::Keyed`] have.
    pub fn arrow(&self) -> &SchemaRef {
        &self.0.arrow
    }

    /// The five meta columns and the user's, as Arrow.
    pub fn with_meta(&self) -> &SchemaRef {
        &self.0.with_meta
    }

    /// The Parquet columns that are written for [`TableSchema::with_meta`].
    pub fn parquet(&self) -> &SchemaDescPtr {
        &self.0.parquet
    }

    /// Avro JSON without meta columns: for commits and for `hoodie.table.create.schema`.
    pub fn avro(&self) -> &str {
        &self.0.avro
    }

    /// Avro JSON with the meta columns: for footers of base files and headers of log blocks.
    pub fn avro_with_meta(&self) -> &str {
        &self.0.avro_with_meta
    }

    /// The schema after a write of columns like these: columns match by name, new ones are appended as nullable, and types
    /// widen as Avro promotes them (int, long, float, double). Columns that are missing stay.
    ///
    /// A name that differs only in case is the same column, unless the table has both. Errors: `Invalid` naming the column
    /// where values would be lost, or where a column that may not be null is missing.
    pub fn evolve(&self, incoming: &Schema) -> Result<TableSchema> {
        let record = evolve::evolve(&self.0.record, incoming)?;
        if record == self.0.record { Ok(self.clone()) } else { Self::new(record) }
    }

    /// The batch with this schema's columns in its order and types; missing columns are null, others are left out.
    ///
    /// `first_row` is how many rows of the request came before; messages count rows from 1. Errors: `Invalid` naming row and
    /// column.
    pub fn conform(&self, batch: &RecordBatch, first_row: u64) -> Result<RecordBatch> {
        conform::conform(self.arrow(), batch, first_row)
    }

    /// The same for rows that have their meta columns ([`TableSchema::with_meta`]), as read from base and log files.
    pub fn conform_with_meta(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        conform::conform(self.with_meta(), batch, 0)
    }
}

impl PartialEq for TableSchema {
    /// Same columns in the same order; names of nested types do not count.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.arrow == other.0.arrow && self.0.parquet == other.0.parquet)
    }
}

/// A column that Hudi adds.
pub(crate) fn is_meta(name: &str) -> bool {
    META_COLUMNS.contains(&name) || name == OPERATION_COLUMN
}

/// Columns whose names differ only in case are one column to Spark and Hive, which could not read the table.
fn refuse_twins(record: &Record) -> Result<()> {
    let mut names: Vec<String> = record.fields.iter().map(|f| f.name.to_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|w| matches!(w, [a, b] if a == b)) {
        None => Ok(()),
        Some(twins) => Err(Error::invalid(format!("two columns are named {:?}, but for case", twins.first()))
            .with_hint("Spark and Hive do not tell them apart; rename one")),
    }
}
