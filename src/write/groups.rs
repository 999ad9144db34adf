//! [`GroupWriter`]: the files of one file group, marker first.

use super::assign::{Target, new_file_id};
use super::execute::{GroupKeys, GroupRows};
use super::markers::MarkerKind;
use super::plan::WritePlan;
use super::transaction::Transaction;
use crate::error::Result;
use crate::index::IndexKind;
use crate::record::{Keyed, TableSchema};
use crate::slice::log::{self, LogOptions, LogRows, NewLog};
use crate::slice::merge::merge_base;
use crate::slice::{BaseWriter, NewBase, WrittenFile};
use crate::storage::Storage;
use crate::table::{FileSlice, StoredFile};
use arrow::array::{Array, UInt32Array};
use std::sync::atomic::{AtomicU32, Ordering};

/// Digits of the instant in a write token, hours to milliseconds: Java reads its parts as integers of 32 bits.
const TOKEN_DIGITS: usize = 9;

/// Writes the files of one transaction. May be used from several threads.
pub(super) struct GroupWriter<'t> {
    transaction: &'t Transaction,
    plan: &'t WritePlan,
    /// Numbers files whose rows no target was worked out for.
    next: AtomicU32,
}

impl<'t> GroupWriter<'t> {
    /// For the files of a transaction that is inflight.
    pub fn new(transaction: &'t Transaction, plan: &'t WritePlan) -> GroupWriter<'t> {
        GroupWriter { transaction, plan, next: AtomicU32::new(0) }
    }

    /// Writes the rows of one group.
    pub fn write(&self, schema: &TableSchema, group: GroupRows<'_>) -> Result<Vec<WrittenFile>> {
        let target = self.new_base(group.target, group.task);
        let rows: Vec<GroupKeys> = group.merged.into_iter().chain(group.appended).collect();
        match &group.target.slice {
            None => self.create(schema, target, rows),
            Some(FileSlice { base_file: Some(base), .. }) if !self.goes_to_log(group.target) => {
                self.merge(schema, target, base, rows)
            }
            Some(slice) => self.append(schema, slice, group.task, &rows),
        }
    }

    /// Opens the first file of a new group, with that id where the index has chosen one.
    pub fn open_new(&self, partition: &str, file_id: Option<String>, schema: &TableSchema) -> Result<BaseWriter> {
        let task = self.next.fetch_add(1, Ordering::Relaxed);
        let target = Target {
            partition: partition.to_owned(),
            file_id: file_id.unwrap_or_else(new_file_id),
            slice: None,
            updates: 0,
            inserts: 0,
        };
        self.open(schema, &self.new_base(&target, task))
    }

    fn new_base(&self, target: &Target, task: u32) -> NewBase {
        NewBase {
            partition: target.partition.clone(),
            file_id: target.file_id.clone(),
            write_token: self.token(task),
            instant: self.transaction.instant(),
            task,
        }
    }

    /// A write token of this write alone: up to table version 6 two writers of one slice take the same version for their logs, and
    /// tell the files apart by it.
    fn token(&self, task: u32) -> String {
        let instant = self.transaction.instant();
        let time = instant.as_str();
        let attempt = time.get(time.len().saturating_sub(TOKEN_DIGITS)..).unwrap_or_default().trim_start_matches('0');
        format!("{task}-1-{}", if attempt.is_empty() { "0" } else { attempt })
    }

    /// What a merge-on-read table already holds is changed in logs. New rows go there too, unless the index does not see logs:
    /// then a group that takes some becomes its next version, as in a copy-on-write table.
    fn goes_to_log(&self, target: &Target) -> bool {
        let plain = target.slice.as_ref().is_some_and(|s| s.log_files.is_empty() && s.compaction.is_none());
        let seen = self.plan.index.sees_logs() || target.inserts == 0;
        self.plan.merge_on_read && (seen || !plain)
    }

    fn open(&self, schema: &TableSchema, target: &NewBase) -> Result<BaseWriter> {
        self.transaction.marker_for(&target.partition, &target.file_name(), MarkerKind::Create)?;
        BaseWriter::create(self.storage(), target, schema, &self.plan.base)
    }

    fn create(&self, schema: &TableSchema, target: NewBase, rows: Vec<GroupKeys>) -> Result<Vec<WrittenFile>> {
        let mut writer: Option<BaseWriter> = None;
        for rows in rows {
            let rows = without_deletes(rows.rows)?;
            if rows.keys.is_empty() {
                continue;
            }
            let mut open = match writer.take() {
                Some(open) => open,
                None => self.open(schema, &target)?,
            };
            open.write(&rows)?;
            writer = Some(open);
        }
        writer.map(|w| Ok(vec![w.finish()?])).unwrap_or_else(|| Ok(Vec::new()))
    }

    fn merge(
        &self,
        schema: &TableSchema,
        target: NewBase,
        base: &StoredFile,
        rows: Vec<GroupKeys>,
    ) -> Result<Vec<WrittenFile>> {
        self.transaction.marker_for(&target.partition, &target.file_name(), MarkerKind::Merge)?;
        let rows: Vec<Keyed> = rows.into_iter().map(|r| r.rows).collect();
        let merged = merge_base(self.storage(), base, &target, schema, &self.plan.rules, &rows, &self.plan.base)?;
        Ok(vec![merged])
    }

    fn append(
        &self,
        schema: &TableSchema,
        slice: &FileSlice,
        task: u32,
        rows: &[GroupKeys],
    ) -> Result<Vec<WrittenFile>> {
        let config = self.plan.snapshot.config();
        let target = NewLog {
            partition: slice.partition.clone(),
            file_id: slice.file_id.clone(),
            write_token: self.token(task),
            instant: self.transaction.instant(),
            task,
            slice: Some(slice.clone()),
            named_by_writer: config.version().slices_by_completion_time(),
        };
        let mut options = LogOptions::new(&self.transaction.session().options().settings)?;
        options.column_ranges = self.plan.base.column_ranges;
        options.tell_keys = self.plan.base.tell_keys;
        options.meta_fields = config.populate_meta_fields();
        // A bucket is found for every key, whether or not it is there.
        let tells = self.plan.kind != IndexKind::Bucket;
        let rows: Vec<LogRows<'_>> =
            rows.iter().map(|r| LogRows { rows: &r.rows, known: tells.then_some(&r.known) }).collect();
        let announce = |file: &str| self.transaction.marker_for(&slice.partition, file, MarkerKind::Append);
        log::append(self.storage(), &target, schema, &self.plan.rules, &rows, &options, &announce)
    }

    fn storage(&self) -> &dyn Storage {
        &**self.transaction.session().storage()
    }
}

fn without_deletes(rows: Keyed) -> Result<Keyed> {
    let Some(deletes) = &rows.deletes else { return Ok(rows) };
    let kept = (0_u32..).zip(deletes).filter(|(_, d)| *d != Some(true)).map(|(row, _)| row);
    rows.take(&UInt32Array::from_iter_values(kept))
}
