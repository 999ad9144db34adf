//! The plain way to make a base file anew: every row is decoded, merged and encoded again.
//!
//! This is what the faster ways are held against: they must give the same rows.

use super::super::read::base_batches;
use super::super::{BaseOptions, BaseWriter, NewBase, WrittenFile};
use crate::error::{Error, Result};
use crate::format::file_name::BaseName;
use crate::record::{Keyed, META_COLUMNS, MergeRules, TableSchema};
use crate::storage::Storage;
use crate::table::StoredFile;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{concat_batches, interleave_record_batch};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows encoded at a time of those that the file did not hold.
const INSERT_ROWS: usize = 16_384;

/// [`super::merge_base`], row by row.
pub fn merge_base_full(
    storage: &dyn Storage,
    old: &StoredFile,
    target: &NewBase,
    schema: &TableSchema,
    rules: &MergeRules,
    rows: &[Keyed],
    options: &BaseOptions,
) -> Result<WrittenFile> {
    let plain = BaseOptions { tell_keys: false, ..options.clone() };
    let writer = BaseWriter::create(storage, target, schema, &plain)?;
    let mut merge =
        FullMerge { writer, rules, incoming: Incoming::new(target, schema, rules, rows)?, counts: Counts::default() };
    let path = crate::storage::TablePath::parse(&target.partition)?.join(&old.name)?;
    for batch in base_batches(storage, &path, Some(old.size), schema)? {
        merge.base_rows(&batch?)?;
    }
    merge.inserts()?;
    let Counts { inserts, updates, deletes, added, removed } = merge.counts;
    let mut written = merge.writer.finish()?;
    written.stat.num_inserts = inserts;
    written.stat.num_updates = updates;
    written.stat.num_deletes = deletes;
    written.stat.previous = BaseName::parse(&old.name).map(|n| n.instant.to_string());
    written.stat.prev_base_file = Some(old.name.clone());
    if options.tell_keys {
        written.keys_added = added;
        written.keys_removed = removed;
    }
    Ok(written)
}

#[derive(Default)]
struct Counts {
    inserts: u64,
    updates: u64,
    deletes: u64,
    added: Vec<String>,
    removed: Vec<String>,
}

struct FullMerge<'r> {
    writer: BaseWriter,
    rules: &'r MergeRules,
    incoming: Incoming,
    counts: Counts,
}

/// The incoming rows with their meta columns, as one batch.
struct Incoming {
    batch: RecordBatch,
    deletes: Vec<bool>,
    rows: HashMap<String, Met>,
    ordering: crate::record::OrderingValues,
}

/// An incoming row. A file may hold a key more than once, if rows were inserted without a lookup: all of them are updated.
struct Met {
    row: usize,
    in_base: bool,
}

impl Incoming {
    fn new(target: &NewBase, schema: &TableSchema, rules: &MergeRules, rows: &[Keyed]) -> Result<Incoming> {
        let failed = |e| Error::internal(format!("incoming rows could not be joined: {e}"));
        let users: Vec<&RecordBatch> = rows.iter().map(|r| &r.rows).collect();
        let users = concat_batches(schema.arrow(), users).map_err(failed)?;
        let count = users.num_rows();
        let keys = StringArray::from_iter_values(rows.iter().flat_map(|r| r.keys.iter().flatten()));
        let constant =
            |value: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, count))) as ArrayRef;
        let sequence = (0..count).map(|row| format!("{}_{}_{row}", target.instant, target.task));
        let meta: Vec<ArrayRef> = vec![
            constant(target.instant.as_str()),
            Arc::new(StringArray::from_iter_values(sequence)),
            Arc::new(keys.clone()),
            constant(&target.partition),
            constant(""),
        ];
        let columns = meta.into_iter().chain(users.columns().iter().cloned()).collect();
        let deletes =
            rows.iter().flat_map(|r| (0..r.keys.len()).map(|at| r.deletes.as_ref().is_some_and(|d| d.value(at))));
        Ok(Incoming {
            ordering: rules.ordering(&users)?,
            deletes: deletes.collect(),
            rows: keys
                .iter()
                .flatten()
                .map(str::to_owned)
                .enumerate()
                .map(|(row, key)| (key, Met { row, in_base: false }))
                .collect(),
            batch: RecordBatch::try_new(schema.with_meta().clone(), columns).map_err(failed)?,
        })
    }
}

impl FullMerge<'_> {
    fn base_rows(&mut self, batch: &RecordBatch) -> Result<()> {
        let key_column = META_COLUMNS.get(2).copied().unwrap_or_default();
        let keys = batch.column_by_name(key_column).and_then(|c| c.as_string_opt::<i32>());
        let keys = keys.ok_or_else(|| Error::corrupt(format!("a base file without {key_column}")))?;
        let held = self.rules.ordering(batch)?;
        let mut picks = Vec::with_capacity(batch.num_rows());
        for at in 0..batch.num_rows() {
            let met = if keys.is_valid(at) { self.incoming.rows.get_mut(keys.value(at)) } else { None };
            let Some(met) = met else {
                picks.push((0, at));
                continue;
            };
            met.in_base = true;
            let row = met.row;
            let deletes = self.incoming.deletes.get(row).copied().unwrap_or(false);
            if !self.rules.incoming_row_wins((&held, at), (&self.incoming.ordering, row), deletes) {
                picks.push((0, at));
            } else if deletes {
                self.counts.deletes += 1;
                self.counts.removed.push(keys.value(at).to_owned());
            } else {
                self.counts.updates += 1;
                picks.push((1, row));
            }
        }
        self.put(&[batch, &self.incoming.batch.clone()], &picks)
    }

    fn put(&mut self, batches: &[&RecordBatch], picks: &[(usize, usize)]) -> Result<()> {
        if picks.is_empty() {
            return Ok(());
        }
        let rows = interleave_record_batch(batches, picks)
            .map_err(|e| Error::internal(format!("merged rows could not be joined: {e}")))?;
        self.writer.write_with_meta(&rows)
    }

    /// The rows whose keys the file did not hold, in their order.
    fn inserts(&mut self) -> Result<()> {
        let met = std::mem::take(&mut self.incoming.rows).into_values();
        let mut rows: Vec<usize> = met.filter(|met| !met.in_base).map(|met| met.row).collect();
        rows.sort_unstable();
        rows.retain(|row| !self.incoming.deletes.get(*row).copied().unwrap_or(false));
        let keys: StringArray = self.incoming.batch.column(2).as_string().clone();
        self.counts.added.extend(rows.iter().map(|row| keys.value(*row).to_owned()));
        self.counts.inserts += rows.len() as u64;
        let batch = self.incoming.batch.clone();
        for part in rows.chunks(INSERT_ROWS) {
            let picks: Vec<(usize, usize)> = part.iter().map(|row| (0, *row)).collect();
            self.put(&[&batch], &picks)?;
        }
        Ok(())
    }
}
