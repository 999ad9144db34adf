//! [`TableSchema`]: a table's columns, as Avro, as Arrow and as Parquet.
//!
//! Hudi keeps schemas as Avro JSON: in commits (`extraMetadata.schema`), in `hoodie.table.create.schema`, in footers of base
//! files and headers of log blocks. Rows are Arrow here, and Parquet on disk. One value holds all three, so that they cannot
//! disagree; names and namespaces of nested types are kept as they were read, or made as Java makes them.
//! Meta columns are never part of it: [`TableSchema::with_meta`] and its like put them before the others.

use crate::error::{Error, Result};
use crate::table::Snapshot;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use parquet::schema::types::SchemaDescPtr;

/// The columns of a table, without meta columns. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TableSchema {}

impl TableSchema {
    /// From Avro JSON; meta columns are left out. Errors name the field.
    pub fn from_avro(_json: &str) -> Result<TableSchema> {
        Err(Error::internal("not written yet"))
    }

    /// From Arrow, with the names of types that Java would give in a table of that name; meta columns are left out.
    ///
    /// Errors: `Invalid` for names that Avro does not allow, `Unsupported` for types that Hudi has not.
    pub fn from_arrow(_schema: &Schema, _table_name: &str) -> Result<TableSchema> {
        Err(Error::internal("not written yet"))
    }

    /// The user columns as Arrow: what the rows of [`super::Keyed`] have.
    pub fn arrow(&self) -> &SchemaRef {
        unreachable!()
    }

    /// The five meta columns and the user's, as Arrow.
    pub fn with_meta(&self) -> &SchemaRef {
        unreachable!()
    }

    /// The Parquet columns that Java writes for [`TableSchema::with_meta`].
    pub fn parquet(&self) -> &SchemaDescPtr {
        unreachable!()
    }

    /// Avro JSON without meta columns: for commits and for `hoodie.table.create.schema`.
    pub fn avro(&self) -> &str {
        ""
    }

    /// Avro JSON with the meta columns: for footers of base files and headers of log blocks.
    pub fn avro_with_meta(&self) -> &str {
        ""
    }

    /// The schema after a write of columns like these: columns match by name, new ones are appended as nullable, and types
    /// widen as Avro promotes them (int, long, float, double). Columns that are missing stay.
    ///
    /// Errors: `Invalid` naming the column where values would be lost.
    pub fn evolve(&self, _incoming: &Schema) -> Result<TableSchema> {
        Err(Error::internal("not written yet"))
    }

    /// The batch with this schema's columns in its order and types; missing columns are null.
    ///
    /// `first_row` is the number of the first row in the request, for messages. Errors: `Invalid` naming row and column.
    pub fn conform(&self, _batch: &RecordBatch, _first_row: u64) -> Result<RecordBatch> {
        Err(Error::internal("not written yet"))
    }
}

/// The schema of a table as of a snapshot: that of the newest commit, else the one that the table was created with, else that
/// of a base file. `None` for a table that has none of them.
pub fn of_snapshot(_snapshot: &Snapshot) -> Result<Option<TableSchema>> {
    Err(Error::internal("not written yet"))
}
