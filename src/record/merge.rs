//! Which of two rows of one key stands: a table's merge rules.
//! Format: docs/format.md, "Merging".

use super::Keyed;
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use arrow::array::{BooleanArray, RecordBatch};
use std::cmp::Ordering;

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
pub struct MergeRules {}

/// An ordering value: of a row, or in a delete block. Values of different numeric types compare by promotion.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderingValue {
    /// None given: Java's default, the integer 0.
    Default,
    /// A boolean.
    Boolean(bool),
    /// An int or long; also dates, times and timestamps.
    Long(i64),
    /// A float or double.
    Double(f64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Text.
    String(String),
    /// An unscaled decimal and its scale.
    Decimal(i128, i8),
    /// Several fields, compared in order.
    List(Vec<OrderingValue>),
}

impl OrderingValue {
    /// Compares after promotion; values that cannot be compared are equal, so that the later write wins.
    pub fn compare(&self, _other: &OrderingValue) -> Ordering {
        Ordering::Equal
    }
}

/// The ordering values of a batch's rows.
#[derive(Clone, Debug)]
pub struct OrderingValues {}

impl OrderingValues {
    /// The value of one row; a null, and a batch without ordering fields, is [`OrderingValue::Default`].
    pub fn get(&self, _row: usize) -> OrderingValue {
        OrderingValue::Default
    }

    /// Compares a row of these with a row of others.
    pub fn compare(&self, _row: usize, _other: &OrderingValues, _other_row: usize) -> Ordering {
        Ordering::Equal
    }
}

impl MergeRules {
    /// The rules of a table. `Unsupported` names custom payloads and mergers, partial updates and change data capture.
    pub fn new(_config: &TableConfig) -> Result<MergeRules> {
        Err(Error::internal("not written yet"))
    }

    /// How rows are told apart.
    pub fn mode(&self) -> MergeMode {
        MergeMode::CommitTime
    }

    /// The ordering fields; empty where there is none.
    pub fn ordering_fields(&self) -> &[String] {
        &[]
    }

    /// Which rows delete their key, by `_hoodie_is_deleted` and the table's delete marker; `None` where none does.
    pub fn deletes(&self, _rows: &RecordBatch) -> Result<Option<BooleanArray>> {
        Err(Error::internal("not written yet"))
    }

    /// The ordering values of rows; fields that the batch lacks count as null.
    pub fn ordering(&self, _rows: &RecordBatch) -> Result<OrderingValues> {
        Err(Error::internal("not written yet"))
    }

    /// True if the incoming row stands over the one that the table holds.
    pub fn incoming_wins(&self, _held: &OrderingValue, _incoming: &OrderingValue, _incoming_deletes: bool) -> bool {
        true
    }

    /// One row a key: of rows with the same key (and partition, unless `global`) that which stands. Order is kept.
    pub fn dedupe(&self, _rows: Keyed, _global: bool) -> Result<Keyed> {
        Err(Error::internal("not written yet"))
    }
}
