//! Rows on their way into a table and out of it, as Arrow batches.
//!
//! [`Keyed`] is what the write path carries: rows in the table's schema with their record keys and partitions worked out.
//! Everything here is about values; no file is named and no storage touched, but for looking up the schema of a table.

pub mod decode;
pub mod keys;
pub mod merge;
pub mod parquet_file;
pub mod schema;

pub mod avro;

use arrow::array::{BooleanArray, RecordBatch, StringArray};

pub use keys::KeyGenerator;
pub use merge::{MergeMode, MergeRules, OrderingValue, OrderingValues};
pub use schema::TableSchema;

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

/// The meta columns that come before the user's, in this order.
pub const META_COLUMNS: [&str; 5] = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
];

/// The meta column of Flink's change logs.
pub const OPERATION_COLUMN: &str = "_hoodie_operation";

/// The user column that marks a row as a delete of its key.
pub const DELETED_COLUMN: &str = "_hoodie_is_deleted";
