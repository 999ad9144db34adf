//! Taking rows in: each batch brought to the table's schema, its keys and partitions worked out, and set aside.
//!
//! All of a request is read and checked before an instant exists, so that bad input leaves nothing behind; only rows that are
//! merely added and outgrow their share of memory are written while the rest still comes in ([`super::bulk`]).

use super::columns::Routed;
use super::report::Progress;
use super::request::{Operation, Records};
use super::spool::{BUCKETS, Spool};
use crate::error::{Error, Result};
use crate::record::{KeyGenerator, Keyed, MergeRules, TableSchema};
use arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// What makes incoming rows the table's.
pub(super) struct Intake<'a> {
    pub operation: Operation,
    /// The table's schema so far.
    pub known: Option<TableSchema>,
    pub table_name: &'a str,
    pub keys: &'a KeyGenerator,
    pub rules: &'a MergeRules,
    /// Keys are looked up in the whole table: deletes need not say their partition.
    pub global: bool,
    pub progress: &'a Progress,
}

/// Rows keyed batch by batch.
pub(super) struct KeyedRows<'a> {
    intake: Intake<'a>,
    records: Records,
    /// The table's schema with this request's columns, once the first batch has come.
    schema: Option<TableSchema>,
    /// What batches are brought to: for deletes, in which columns may lack, all of it nullable.
    target: Option<TableSchema>,
    /// Batches that were read ahead.
    ahead: VecDeque<Keyed>,
    rows: u64,
}

impl<'a> KeyedRows<'a> {
    pub fn new(intake: Intake<'a>, records: Records) -> KeyedRows<'a> {
        KeyedRows { intake, records, schema: None, target: None, ahead: VecDeque::new(), rows: 0 }
    }

    /// The table's schema after the write; `None` before the first batch of a table without one.
    pub fn schema(&self) -> Option<&TableSchema> {
        self.schema.as_ref().or(self.intake.known.as_ref())
    }

    /// Rows that came in.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads ahead, up to so many bytes: what is wrong there is found before anything is written.
    pub fn prefetch(&mut self, bytes: u64) -> Result<()> {
        let mut held = 0;
        while held < bytes {
            let Some(keyed) = self.read()? else { break };
            held += keyed.rows.get_array_memory_size() as u64;
            self.ahead.push_back(keyed);
        }
        Ok(())
    }

    /// True if nothing was read ahead.
    pub fn is_empty(&self) -> bool {
        self.ahead.iter().all(|keyed| keyed.keys.is_empty())
    }

    /// The next batch; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Keyed>> {
        match self.ahead.pop_front() {
            Some(keyed) => Ok(Some(keyed)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Keyed>> {
        let Some(batch) = self.records.next().transpose()? else { return Ok(None) };
        let target = match self.target.take() {
            Some(target) => self.same(target, &batch)?,
            None => self.start(&batch)?,
        };
        let conformed = target.conform(&batch, self.rows)?;
        self.target = Some(target);
        let keyed = self.key(&batch, conformed)?;
        self.rows += keyed.rows.num_rows() as u64;
        self.intake.progress.add_rows(keyed.rows.num_rows() as u64);
        Ok(Some(keyed))
    }

    /// All rows, set aside.
    pub fn spool(&mut self, budget: u64) -> Result<Spool> {
        let mut spool = Spool::new(budget);
        while let Some(keyed) = self.next()? {
            let places = keyed.keys.iter().map(|k| bucket_of(k.unwrap_or_default())).collect();
            spool.push(Routed::unrouted(&keyed)?.into_batch(), places)?;
        }
        Ok(spool)
    }

    fn start(&mut self, batch: &RecordBatch) -> Result<TableSchema> {
        let incoming = batch.schema();
        if self.intake.operation == Operation::Delete {
            let known = self
                .intake
                .known
                .as_ref()
                .ok_or_else(|| Error::invalid("rows are to be deleted from a table that has no commit yet"))?;
            let fields = known.arrow().fields().iter().map(|f| Field::clone(f).with_nullable(true));
            return TableSchema::from_arrow(&Schema::new(fields.collect::<Vec<_>>()), self.intake.table_name);
        }
        let schema = match &self.intake.known {
            Some(known) => known.evolve(&incoming)?,
            None => TableSchema::from_arrow(&incoming, self.intake.table_name)?,
        };
        self.intake.keys.check(&schema)?;
        // The table has them, but rows without them would all go to one partition, or have one key.
        for field in self.intake.keys.key_fields().iter().chain(self.intake.keys.partition_fields()) {
            let outer = field.split('.').next().unwrap_or(field);
            if !incoming.fields().iter().any(|f| f.name().eq_ignore_ascii_case(outer)) {
                return Err(Error::invalid(format!("the rows lack the column {field:?}"))
                    .in_column(field)
                    .with_hint("record keys and partitions are made of it"));
            }
        }
        self.schema = Some(schema.clone());
        Ok(schema)
    }

    /// Later bodies of a request may leave columns out, but not bring new ones.
    fn same(&self, target: TableSchema, batch: &RecordBatch) -> Result<TableSchema> {
        let new = |name: &str| target.arrow().column_with_name(name).is_none() && !name.starts_with("_hoodie_");
        match batch.schema().fields().iter().find(|f| new(f.name())) {
            Some(field) if self.intake.operation != Operation::Delete => Err(Error::invalid(format!(
                "column {:?} comes with row {}, and the request's first rows lack it",
                field.name(),
                self.rows
            ))
            .with_hint("send rows with all columns first, or the others as a request of their own")),
            _ => Ok(target),
        }
    }

    fn key(&self, batch: &RecordBatch, rows: RecordBatch) -> Result<Keyed> {
        let Intake { operation, keys, rules, global, .. } = &self.intake;
        if *operation != Operation::Delete {
            return keys.apply(rows, rules, self.rows);
        }
        let lacks = |name: &String| batch.column_by_name(name).is_none();
        let missing = keys.partition_fields().iter().find(|f| lacks(f));
        let partitions = match missing {
            Some(_) if *global => StringArray::from(vec![""; rows.num_rows()]),
            Some(field) => {
                return Err(Error::invalid(format!("the rows to delete lack the partition column {field:?}"))
                    .with_hint("keys are unique in their partition only: send keys and partition columns"));
            }
            None => keys.partitions(&rows, self.rows)?,
        };
        let keys = keys.keys(&rows, self.rows)?;
        let deletes = Some(BooleanArray::from(vec![true; rows.num_rows()]));
        Ok(Keyed { rows, keys, partitions, deletes })
    }
}

/// The bucket of a key: the same whatever its partition, since a global index may find it in another.
pub(super) fn bucket_of(key: &str) -> u8 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    (hash % BUCKETS as u64) as u8
}
