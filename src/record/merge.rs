//! Which of two rows of one key stands: a table's merge rules.
//!
//! Rules come from the table's properties alone, so that every writer of a table goes by the same. What only Java code could
//! decide (custom payloads and mergers, partial updates) is refused by name. Format: docs/format.md, "Merging".

mod config;
mod ordering;

#[cfg(test)]
mod tests;

use super::{DELETED_COLUMN, Keyed};
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use arrow::array::{Array, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{take, take_record_batch};
use arrow::datatypes::DataType;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

pub use ordering::{OrderingValue, OrderingValues};

/// How rows of one key are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMode {
    /// The later write wins.
    CommitTime,
    /// The greater ordering value wins; of equal ones the later write.
    EventTime,
}

/// A table's merge rules. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MergeRules(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    mode: MergeMode,
    ordering_fields: Vec<String>,
    /// A column and the value in it that deletes the row's key.
    marker: Option<(String, String)>,
}

impl MergeRules {
    /// The rules of a table. `Unsupported` names custom payloads and mergers, partial updates and change data capture.
    pub fn new(config: &TableConfig) -> Result<MergeRules> {
        config::build(config).map(|rules| MergeRules(Arc::new(rules)))
    }

    /// How rows are told apart.
    pub fn mode(&self) -> MergeMode {
        self.0.mode
    }

    /// The ordering fields; empty where there is none.
    pub fn ordering_fields(&self) -> &[String] {
        &self.0.ordering_fields
    }

    /// Which rows delete their key, by `_hoodie_is_deleted` and the table's delete marker; `None` where none does.
    pub fn deletes(&self, rows: &RecordBatch) -> Result<Option<BooleanArray>> {
        let mut deletes: Option<BooleanArray> = None;
        if let Some(column) = rows.column_by_name(DELETED_COLUMN) {
            let DataType::Boolean = column.data_type() else {
                return Err(Error::invalid(format!(
                    "column {DELETED_COLUMN:?} is {}, and must be boolean",
                    column.data_type()
                )));
            };
            deletes = Some(known(column.as_boolean()));
        }
        if let Some((field, marker)) = &self.0.marker
            && let Some(column) = rows.column_by_name(field)
            && let Some(values) = column.as_string_opt::<i32>()
        {
            let marked = BooleanArray::from_iter(values.iter().map(|v| Some(v == Some(marker.as_str()))));
            deletes = match deletes {
                None => Some(marked),
                Some(others) => Some(arrow::compute::or(&others, &marked).map_err(|e| Error::internal(e.to_string()))?),
            };
        }
        Ok(deletes.filter(|d| d.true_count() > 0))
    }

    /// The ordering values of rows; fields that the batch lacks count as null.
    pub fn ordering(&self, rows: &RecordBatch) -> Result<OrderingValues> {
        let fields = match self.0.mode {
            MergeMode::EventTime => self.0.ordering_fields.as_slice(),
            MergeMode::CommitTime => &[],
        };
        OrderingValues::new(rows, fields)
    }

    /// True if the incoming row stands over the one that the table holds.
    pub fn incoming_wins(&self, held: &OrderingValue, incoming: &OrderingValue, incoming_deletes: bool) -> bool {
        match self.0.mode {
            MergeMode::CommitTime => true,
            // A delete that tells no ordering value is one of commit time.
            MergeMode::EventTime if incoming_deletes && *incoming == OrderingValue::Default => true,
            MergeMode::EventTime => incoming.compare(held) != Ordering::Less,
        }
    }

    /// The same for a row of a batch that the table holds and one of a batch that comes.
    pub fn incoming_row_wins(
        &self,
        held: (&OrderingValues, usize),
        incoming: (&OrderingValues, usize),
        incoming_deletes: bool,
    ) -> bool {
        match self.0.mode {
            MergeMode::CommitTime => true,
            MergeMode::EventTime if incoming_deletes && incoming.0.is_default(incoming.1) => true,
            MergeMode::EventTime => incoming.0.compare(incoming.1, held.0, held.1) != Ordering::Less,
        }
    }

    /// One row a key: of rows with the same key (and partition, unless `global`) that which stands. Order is kept.
    pub fn dedupe(&self, rows: Keyed, global: bool) -> Result<Keyed> {
        let count = rows.keys.len();
        let ordering = self.ordering(&rows.rows)?;
        let deletes = |row: usize| rows.deletes.as_ref().is_some_and(|d| d.value(row));
        let mut standing: HashMap<(&str, &str), usize> = HashMap::with_capacity(count);
        for row in 0..count {
            let partition = if global { "" } else { rows.partitions.value(row) };
            let held = standing.entry((rows.keys.value(row), partition)).or_insert(row);
            if *held != row && self.incoming_row_wins((&ordering, *held), (&ordering, row), deletes(row)) {
                *held = row;
            }
        }
        if standing.len() == count {
            drop(standing);
            return Ok(rows);
        }
        let mut chosen: Vec<u32> = standing.into_values().map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
        chosen.sort_unstable();
        rows.take(&UInt32Array::from(chosen))
    }
}

impl Keyed {
    /// The rows at these places, in this order.
    pub fn take(&self, rows: &UInt32Array) -> Result<Keyed> {
        let failed =
            |e: arrow::error::ArrowError| Error::internal(format!("rows could not be taken: {e}")).with_source(e);
        let strings = |array: &StringArray| -> Result<StringArray> {
            Ok(take(array, rows, None).map_err(failed)?.as_string::<i32>().clone())
        };
        let deletes = match &self.deletes {
            None => None,
            Some(deletes) => {
                let taken = take(deletes, rows, None).map_err(failed)?.as_boolean().clone();
                Some(taken).filter(|d| d.true_count() > 0)
            }
        };
        Ok(Keyed {
            rows: take_record_batch(&self.rows, rows).map_err(failed)?,
            keys: strings(&self.keys)?,
            partitions: strings(&self.partitions)?,
            deletes,
        })
    }
}

/// Nulls are no deletes.
fn known(values: &BooleanArray) -> BooleanArray {
    if values.null_count() == 0 {
        return values.clone();
    }
    let mut bits = BooleanBufferBuilder::new(values.len());
    for value in values {
        bits.append(value == Some(true));
    }
    BooleanArray::new(bits.finish(), None)
}
