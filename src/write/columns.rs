//! Rows with what the write path knows of each, as one batch: so they can be set aside, divided and taken as a whole.
//!
//! Behind the user's columns come six of ours. A target is the file group a row goes to.

use crate::error::{Error, Result};
use crate::record::Keyed;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt32Type};
use std::sync::Arc;

/// Our columns behind the user's.
const OURS: usize = 6;

/// A row's way into its group.
pub(super) mod way {
    /// Replaces the row of its key, or is new: the group is searched for the key.
    pub const MERGE: bool = true;
    /// Is added without a look at the keys.
    pub const APPEND: bool = false;
}

/// Rows with keys, partitions, deletions, targets and ways.
#[derive(Clone, Debug)]
pub(super) struct Routed(RecordBatch);

impl Routed {
    /// Joins rows, their targets, ways ([`way`]), and whether the index knows their keys.
    pub fn new(keyed: &Keyed, targets: Vec<u32>, ways: Vec<bool>, known: Vec<bool>) -> Result<Routed> {
        let rows = keyed.rows.num_rows();
        let deletes = keyed.deletes.clone().unwrap_or_else(|| BooleanArray::from(vec![false; rows]));
        let mut columns: Vec<ArrayRef> = keyed.rows.columns().to_vec();
        columns.push(Arc::new(keyed.keys.clone()));
        columns.push(Arc::new(keyed.partitions.clone()));
        columns.push(Arc::new(deletes));
        columns.push(Arc::new(UInt32Array::from(targets)));
        columns.push(Arc::new(BooleanArray::from(ways)));
        columns.push(Arc::new(BooleanArray::from(known)));
        RecordBatch::try_new(with_ours(&keyed.rows.schema()), columns).map(Routed).map_err(internal)
    }

    /// Rows that have no targets yet.
    pub fn unrouted(keyed: &Keyed) -> Result<Routed> {
        let rows = keyed.rows.num_rows();
        Routed::new(keyed, vec![0; rows], vec![way::MERGE; rows], vec![false; rows])
    }

    /// What [`Routed::into_batch`] gave.
    pub fn from_batch(batch: RecordBatch) -> Routed {
        Routed(batch)
    }

    /// As one batch.
    pub fn into_batch(self) -> RecordBatch {
        self.0
    }

    /// The target of each row.
    pub fn targets(&self) -> Result<&UInt32Array> {
        self.ours(3)?.as_primitive_opt::<UInt32Type>().ok_or_else(lost)
    }

    /// The way of each row.
    pub fn ways(&self) -> Result<&BooleanArray> {
        self.ours(4)?.as_boolean_opt().ok_or_else(lost)
    }

    /// Whether the index knew the key of each row.
    pub fn known(&self) -> Result<&BooleanArray> {
        self.ours(5)?.as_boolean_opt().ok_or_else(lost)
    }

    /// The rows as the rest of the crate has them.
    pub fn keyed(&self) -> Result<Keyed> {
        let users = self.0.num_columns() - OURS;
        let rows = self.0.project(&(0..users).collect::<Vec<_>>()).map_err(internal)?;
        let text =
            |index| -> Result<StringArray> { Ok(self.ours(index)?.as_string_opt::<i32>().ok_or_else(lost)?.clone()) };
        let deletes = self.ours(2)?.as_boolean_opt().ok_or_else(lost)?;
        let deletes = (deletes.true_count() > 0).then(|| deletes.clone());
        Ok(Keyed { rows, keys: text(0)?, partitions: text(1)?, deletes })
    }

    fn ours(&self, index: usize) -> Result<&dyn Array> {
        let first = self.0.num_columns().checked_sub(OURS).ok_or_else(lost)?;
        self.0.columns().get(first + index).map(|c| &**c).ok_or_else(lost)
    }
}

fn with_ours(schema: &SchemaRef) -> SchemaRef {
    let ours = [
        ("key", DataType::Utf8),
        ("partition", DataType::Utf8),
        ("delete", DataType::Boolean),
        ("target", DataType::UInt32),
        ("way", DataType::Boolean),
        ("known", DataType::Boolean),
    ];
    let ours = ours.map(|(name, kind)| Arc::new(Field::new(format!("\u{1}{name}"), kind, false)));
    let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain(ours).collect();
    Arc::new(Schema::new(fields))
}

fn lost() -> Error {
    Error::internal("rows that lost their keys on the way")
}

fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows could not be joined: {error}")).with_source(error)
}
