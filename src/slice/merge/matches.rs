//! Which rows of a file change: its key column looked up among the incoming keys.
//!
//! Row groups whose statistics exclude every incoming key are not read. Where the table orders by event time, the ordering
//! columns of the row groups that are read decide who stands.

use super::super::keys::{leaf_of, within};
use super::super::pool;
use super::super::read::adapt;
use super::incoming::{Incoming, Seeded};
use crate::error::{Error, Result};
use crate::record::parquet_file::{ParquetFile, failed};
use crate::record::{META_COLUMNS, MergeMode, MergeRules, TableSchema};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::collections::HashMap;
use std::sync::Arc;

const KEY: &str = META_COLUMNS[2];
/// Rows decoded at a time.
const BATCH_ROWS: usize = 16_384;

/// A row that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The row in its row group.
    pub row: u32,
    /// The incoming row.
    pub incoming: u32,
    pub deletes: bool,
}

/// What happens to one row group.
#[derive(Debug, Default)]
pub(super) struct GroupChanges {
    /// In the order of the rows.
    pub changes: Vec<Change>,
    /// Incoming rows whose keys are in the group, also those that do not stand.
    pub met: Vec<u32>,
}

/// A base file that is read for a merge.
pub(super) struct OldFile {
    pub file: ParquetFile,
    pub metadata: ArrowReaderMetadata,
}

impl OldFile {
    /// Rows of some columns of one row group.
    pub fn rows(&self, group: usize, roots: Vec<usize>, batch_rows: usize) -> Result<ParquetRecordBatchReader> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let builder = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(batch_rows);
        builder.build().map_err(|e| failed(self.file.name(), e))
    }

    /// An error of reading rows.
    pub fn failed(&self, error: arrow::error::ArrowError) -> Error {
        failed(self.file.name(), error.into())
    }
}

/// The changes of each row group.
pub(super) fn find(
    old: &OldFile,
    schema: &TableSchema,
    rules: &MergeRules,
    incoming: &Incoming,
    threads: usize,
) -> Result<Vec<GroupChanges>> {
    let metadata = old.metadata.metadata();
    let leaf = leaf_of(metadata, KEY, old.file.name())?;
    let mut sorted: Vec<&str> = incoming.keys.iter().flatten().collect();
    sorted.sort_unstable();
    let by_key = incoming.by_key();
    let lookup = Lookup { old, rules, incoming, by_key: &by_key, columns: columns(old, schema, rules)? };
    let groups = metadata.row_groups().iter().enumerate();
    let tasks = groups.map(|(number, group)| (number, !within(group, leaf, &sorted).is_empty())).collect();
    pool::run(threads, tasks, |(number, is_met)| match is_met {
        true => lookup.group(number),
        false => Ok(GroupChanges::default()),
    })
}

/// The key, and what rows are ordered by: places in the file, and the table's types.
fn columns(old: &OldFile, schema: &TableSchema, rules: &MergeRules) -> Result<(Vec<usize>, SchemaRef)> {
    let ordering = if rules.mode() == MergeMode::EventTime { rules.ordering_fields() } else { &[] };
    let names = std::iter::once(KEY).chain(ordering.iter().map(String::as_str));
    let held = old.metadata.schema();
    let places = names.clone().filter_map(|name| held.index_of(name).ok()).collect();
    let wanted = names.filter_map(|name| schema.with_meta().index_of(name).ok()).collect::<Vec<_>>();
    let table = schema.with_meta().project(&wanted).map_err(|e| Error::internal(e.to_string()))?;
    Ok((places, Arc::new(table)))
}

struct Lookup<'m> {
    old: &'m OldFile,
    rules: &'m MergeRules,
    incoming: &'m Incoming,
    by_key: &'m HashMap<&'m str, u32, Seeded>,
    columns: (Vec<usize>, SchemaRef),
}

impl Lookup<'_> {
    fn group(&self, number: usize) -> Result<GroupChanges> {
        let mut found = GroupChanges::default();
        let mut first = 0_u32;
        for batch in self.old.rows(number, self.columns.0.clone(), BATCH_ROWS)? {
            let batch = batch.map_err(|e| self.old.failed(e))?;
            self.batch(&batch, first, &mut found)?;
            let rows = u32::try_from(batch.num_rows()).ok().and_then(|rows| first.checked_add(rows));
            first =
                rows.ok_or_else(|| Error::unsupported(format!("{}: a row group of 2^32 rows", self.old.file.name())))?;
        }
        Ok(found)
    }

    fn batch(&self, batch: &RecordBatch, first: u32, found: &mut GroupChanges) -> Result<()> {
        let rows = adapt(batch, &self.columns.1).map_err(|e| e.context(self.old.file.name()))?;
        let keys = rows.column_by_name(KEY).and_then(|c| c.as_string_opt::<i32>());
        let keys = keys.ok_or_else(|| Error::corrupt(format!("{}: keys are no text", self.old.file.name())))?;
        let mut ordering = None;
        for (row, key) in keys.iter().enumerate() {
            let Some(incoming) = key.and_then(|key| self.by_key.get(key)).copied() else { continue };
            found.met.push(incoming);
            let deletes = self.incoming.deletes(incoming);
            let held = match &ordering {
                Some(held) => held,
                None => ordering.insert(self.rules.ordering(&rows)?),
            };
            let new = (&self.incoming.ordering, incoming as usize);
            if self.rules.incoming_row_wins((held, row), new, deletes) {
                found.changes.push(Change { row: first + row as u32, incoming, deletes });
            }
        }
        Ok(())
    }
}
