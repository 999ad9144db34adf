//! [`WriteRequest`]: what one commit is to do.

use super::report::Progress;
use crate::error::{Error, Result};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Incoming rows, batch by batch. The first error ends the request, and nothing of it becomes visible.
pub type Records = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// What a request does with its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Updates rows whose keys are there, inserts the others.
    Upsert,
    /// Adds rows without looking keys up.
    Insert,
    /// Adds rows to new files only.
    BulkInsert,
    /// Deletes the rows' keys.
    Delete,
    /// Drops whole partitions.
    DeletePartition,
    /// Replaces the content of the partitions that the rows belong to.
    InsertOverwrite,
    /// Replaces the content of the table.
    InsertOverwriteTable,
}

/// One commit to be made.
pub struct WriteRequest {
    /// What to do.
    pub operation: Operation,
    /// The rows; for deletes, rows or their key (and partition) columns; `None` for [`Operation::DeletePartition`].
    pub records: Option<Records>,
    /// The partitions of [`Operation::DeletePartition`], as paths relative to the table.
    pub partitions: Vec<String>,
    /// Work out what would be written where, and write nothing.
    pub dry_run: bool,
    /// A request with a key that an earlier commit carries is answered with that commit's report.
    pub idempotency_key: Option<String>,
    /// More entries of the commit's `extraMetadata`.
    pub extra: BTreeMap<String, String>,
    /// Where progress is told.
    pub progress: Arc<Progress>,
}

impl Operation {
    /// Hudi's name, as in a commit's `operationType`.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Upsert => "UPSERT",
            Operation::Insert => "INSERT",
            Operation::BulkInsert => "BULK_INSERT",
            Operation::Delete => "DELETE",
            Operation::DeletePartition => "DELETE_PARTITION",
            Operation::InsertOverwrite => "INSERT_OVERWRITE",
            Operation::InsertOverwriteTable => "INSERT_OVERWRITE_TABLE",
        }
    }

    /// True where file groups are replaced: the commit is a `replacecommit`.
    pub fn replaces(self) -> bool {
        matches!(self, Operation::DeletePartition | Operation::InsertOverwrite | Operation::InsertOverwriteTable)
    }
}

impl FromStr for Operation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_lowercase().replace('-', "_").as_str() {
            "upsert" => Operation::Upsert,
            "insert" => Operation::Insert,
            "bulk_insert" => Operation::BulkInsert,
            "delete" => Operation::Delete,
            "delete_partition" => Operation::DeletePartition,
            "insert_overwrite" => Operation::InsertOverwrite,
            "insert_overwrite_table" => Operation::InsertOverwriteTable,
            _ => return Err(Error::invalid(format!("{text:?} is no write operation"))),
        })
    }
}

impl WriteRequest {
    /// A request with rows and nothing special.
    pub fn new(operation: Operation, records: Records) -> WriteRequest {
        WriteRequest { records: Some(records), ..WriteRequest::without_rows(operation) }
    }

    /// A request that drops partitions.
    pub fn delete_partitions(partitions: Vec<String>) -> WriteRequest {
        WriteRequest { partitions, ..WriteRequest::without_rows(Operation::DeletePartition) }
    }

    fn without_rows(operation: Operation) -> WriteRequest {
        WriteRequest {
            operation,
            records: None,
            partitions: Vec::new(),
            dry_run: false,
            idempotency_key: None,
            extra: BTreeMap::new(),
            progress: Arc::default(),
        }
    }
}

impl fmt::Debug for WriteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteRequest").field("operation", &self.operation).field("dry_run", &self.dry_run).finish()
    }
}
