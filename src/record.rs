//! Rows on their way into a table and out of it, as Arrow batches.
//!
//! [`Keyed`] is what the write path carries: rows in the table's schema with their record keys and partitions worked out.
//! Everything here is about values; no file is named and no storage touched.

use arrow::array::{BooleanArray, RecordBatch, StringArray};

/// Rows with what the write path must know of each. All columns have the same length.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The user columns, in the order of the table's schema, without meta columns.
    pub rows: RecordBatch,
    /// The record key of each row: never null, never empty.
    pub keys: StringArray,
    /// The partition path of each row, relative to the table; `""` in a table without partitions.
    pub partitions: StringArray,
    /// Rows that delete their key; `None` where none does.
    pub deletes: Option<BooleanArray>,
}
