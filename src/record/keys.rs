//! Record keys and partition paths, as Hudi's key generators make them.

use super::{Keyed, TableSchema};
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use arrow::array::{RecordBatch, StringArray};
use std::collections::BTreeMap;

/// Makes record keys and partition paths from the columns of a row.
#[derive(Clone, Debug)]
pub struct KeyGenerator {}

impl KeyGenerator {
    /// The generator that a table's properties name. `settings` are Hudi's write settings; `existing` is a record key that the
    /// table holds already: some releases put the field's name before the key of a complex generator with one field.
    ///
    /// Errors: `Unsupported` for generators and formats that are refused by name, `Invalid` for settings that contradict.
    pub fn new(_config: &TableConfig, _settings: &BTreeMap<String, String>, _existing: Option<&str>) -> Result<Self> {
        Err(Error::internal("not written yet"))
    }

    /// True if the answer hangs on what keys of the table look like: then `existing` must be given where there is any row.
    pub fn follows_existing(_config: &TableConfig) -> bool {
        false
    }

    /// The columns that the key is made of.
    pub fn key_fields(&self) -> &[String] {
        &[]
    }

    /// The columns that the partition path is made of.
    pub fn partition_fields(&self) -> &[String] {
        &[]
    }

    /// `Invalid` naming the column if the schema lacks one that the generator needs.
    pub fn check(&self, _schema: &TableSchema) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// The record key of each row; `first_row` numbers the rows for messages. `Invalid` names row and column.
    pub fn keys(&self, _rows: &RecordBatch, _first_row: u64) -> Result<StringArray> {
        Err(Error::internal("not written yet"))
    }

    /// The partition path of each row.
    pub fn partitions(&self, _rows: &RecordBatch, _first_row: u64) -> Result<StringArray> {
        Err(Error::internal("not written yet"))
    }

    /// Keys and partitions of rows that have the table's schema, and its delete marks by `rules`.
    pub fn apply(&self, _rows: RecordBatch, _rules: &super::MergeRules, _first_row: u64) -> Result<Keyed> {
        Err(Error::internal("not written yet"))
    }
}
