//! [`KeyColumns`]: the columns that merging goes by, and what they say of each row.

use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use crate::record::{
    DELETED_COLUMN, KeyGenerator, MergeMode, MergeRules, OPERATION_COLUMN, OrderingValues, TableSchema,
};
use arrow::array::{AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The meta column of record keys.
const KEY_COLUMN: &str = "_hoodie_record_key";
/// Properties that name a column whose value marks deletes.
const DELETE_KEYS: [&str; 2] =
    ["hoodie.payload.delete.field", "hoodie.record.merge.property.hoodie.payload.delete.field"];

/// The columns that merging goes by.
#[derive(Debug)]
pub(super) struct KeyColumns {
    columns: SchemaRef,
    rules: MergeRules,
    /// In tables without filled meta columns, keys are worked out.
    generator: Option<KeyGenerator>,
}

impl KeyColumns {
    /// The columns of a table.
    pub fn new(config: &TableConfig, schema: &TableSchema, rules: &MergeRules) -> Result<KeyColumns> {
        let generator = match config.populate_meta_fields() {
            true => None,
            false => Some(KeyGenerator::new(config, &BTreeMap::new(), None)?),
        };
        let mut names: Vec<&str> = vec![KEY_COLUMN, DELETED_COLUMN, OPERATION_COLUMN];
        // Of a nested field its outermost column.
        let root = |name: &'_ String| name.split('.').next().unwrap_or_default().to_owned();
        let fields: Vec<String> = rules.ordering_fields().iter().map(root).collect();
        let keys: Vec<String> = generator.iter().flat_map(|g| g.key_fields()).map(root).collect();
        names.extend(fields.iter().chain(&keys).map(String::as_str));
        names.extend(DELETE_KEYS.iter().filter_map(|key| config.get(key)));
        let columns = schema.with_meta().fields().iter().filter(|f| names.contains(&f.name().as_str())).cloned();
        let columns = Arc::new(Schema::new(columns.collect::<Vec<_>>()));
        Ok(KeyColumns { columns, rules: rules.clone(), generator })
    }

    /// The columns, as a schema of their own.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// How rows are told apart.
    pub fn mode(&self) -> MergeMode {
        self.rules.mode()
    }

    /// These columns of rows that have all of the table's.
    pub fn project(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let index = |name: &str| rows.schema_ref().index_of(name);
        let indices = self.columns.fields().iter().map(|f| index(f.name())).collect::<Result<Vec<_>, _>>();
        indices
            .and_then(|i| rows.project(&i))
            .map_err(|e| Error::internal(format!("rows without their key columns: {e}")))
    }

    /// The record key of each row.
    pub fn keys(&self, rows: &RecordBatch) -> Result<StringArray> {
        if let Some(generator) = &self.generator {
            return generator.keys(rows, 0);
        }
        let column = rows.column_by_name(KEY_COLUMN).and_then(|c| c.as_string_opt::<i32>());
        column.cloned().ok_or_else(|| Error::internal("rows without a column of record keys"))
    }

    /// The ordering value of each row; `None` where merging does not go by it.
    pub fn ordering(&self, rows: &RecordBatch) -> Result<Option<OrderingValues>> {
        match self.rules.mode() {
            MergeMode::CommitTime => Ok(None),
            MergeMode::EventTime => self.rules.ordering(rows).map(Some),
        }
    }

    /// Which rows delete their key.
    pub fn deletes(&self, rows: &RecordBatch) -> Result<Option<BooleanArray>> {
        self.rules.deletes(rows)
    }
}
