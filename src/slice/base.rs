//! Writing a base file.
//! Format: docs/format.md, "Base files".

use super::{BaseOptions, NewBase, WrittenFile};
use crate::error::{Error, Result};
use crate::record::{Keyed, TableSchema};
use crate::storage::Storage;
use arrow::array::RecordBatch;

/// A base file that is being written. Dropped before it is finished, nothing remains of it.
pub struct BaseWriter {}

impl BaseWriter {
    /// Starts the file.
    pub fn create(
        _storage: &dyn Storage,
        _target: &NewBase,
        _schema: &TableSchema,
        _options: &BaseOptions,
    ) -> Result<BaseWriter> {
        Err(Error::internal("not written yet"))
    }

    /// Adds rows as new ones of this instant. Rows must be of the target's partition, and none may be a delete.
    pub fn write(&mut self, _rows: &Keyed) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// Adds rows that have their meta columns already ([`TableSchema::with_meta`]); only the file's name is put in. For
    /// compaction.
    pub fn write_with_meta(&mut self, _rows: &RecordBatch) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        0
    }

    /// Bytes of the file so far, estimated.
    pub fn size(&self) -> u64 {
        0
    }

    /// Finishes the file: durable and visible under its name.
    pub fn finish(self) -> Result<WrittenFile> {
        Err(Error::internal("not written yet"))
    }
}
