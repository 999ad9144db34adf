//! Ordering values: what tells two rows of one key apart in event-time ordering.

use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit};
use std::cmp::Ordering;

/// An ordering value: of a row, or in a delete block. Values of different numeric types compare by promotion.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderingValue {
    /// None given: Java's default, the integer 0.
    Default,
    /// A boolean.
    Boolean(bool),
    /// An int or long; also dates, times and timestamps, in the unit of their column.
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
    pub fn compare(&self, other: &OrderingValue) -> Ordering {
        use OrderingValue::*;
        match (self, other) {
            (Default, Default) => Ordering::Equal,
            (Default, other) => Long(0).compare(other),
            (this, Default) => this.compare(&Long(0)),
            (Boolean(a), Boolean(b)) => a.cmp(b),
            (Long(a), Long(b)) => a.cmp(b),
            (Double(a), Double(b)) => compare_doubles(*a, *b),
            (Long(a), Double(b)) => compare_doubles(*a as f64, *b),
            (Double(a), Long(b)) => compare_doubles(*a, *b as f64),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (String(a), String(b)) => a.cmp(b),
            (Decimal(a, s), Decimal(b, t)) => compare_decimals((*a, *s), (*b, *t)),
            (Decimal(a, s), Long(b)) => compare_decimals((*a, *s), (i128::from(*b), 0)),
            (Long(a), Decimal(b, t)) => compare_decimals((i128::from(*a), 0), (*b, *t)),
            (List(a), List(b)) => {
                let different = a.iter().zip(b).map(|(a, b)| a.compare(b)).find(|o| o.is_ne());
                different.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            _ => Ordering::Equal,
        }
    }
}

/// `Double.compare`: NaN is the greatest.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}

fn compare_decimals((a, s): (i128, i8), (b, t): (i128, i8)) -> Ordering {
    let widened =
        |value: i128, by: i8| 10_i128.checked_pow(u32::from(by.unsigned_abs())).and_then(|p| value.checked_mul(p));
    let (left, right) = match s.cmp(&t) {
        Ordering::Equal => (Some(a), Some(b)),
        Ordering::Less => (widened(a, t - s), Some(b)),
        Ordering::Greater => (Some(a), widened(b, s - t)),
    };
    match (left, right) {
        (Some(a), Some(b)) => a.cmp(&b),
        // What does not fit is the greater in amount.
        (None, _) => a.signum().cmp(&0).then(Ordering::Greater),
        (_, None) => 0.cmp(&b.signum()).then(Ordering::Less),
    }
}

/// The ordering values of a batch's rows.
#[derive(Clone, Debug)]
pub struct OrderingValues(Vec<Column>);

#[derive(Clone, Debug)]
enum Column {
    /// The batch has no such column.
    Missing,
    Longs(ArrayRef),
    Doubles(ArrayRef),
    Strings(ArrayRef),
    Booleans(ArrayRef),
    Decimals(ArrayRef, i8),
    Bytes(ArrayRef),
}

impl OrderingValues {
    pub(super) fn new(rows: &RecordBatch, fields: &[String]) -> Result<OrderingValues> {
        fields
            .iter()
            .map(|field| match rows.column_by_name(field) {
                None => Ok(Column::Missing),
                Some(column) => Column::of(column).map_err(|e| e.context(format!("ordering column {field:?}"))),
            })
            .collect::<Result<_>>()
            .map(OrderingValues)
    }

    /// The value of one row; a null, and a batch without ordering fields, is [`OrderingValue::Default`].
    pub fn get(&self, row: usize) -> OrderingValue {
        match self.0.as_slice() {
            [] => OrderingValue::Default,
            [one] => one.get(row),
            several => OrderingValue::List(several.iter().map(|c| c.get(row)).collect()),
        }
    }

    /// True if the row tells no value.
    pub fn is_default(&self, row: usize) -> bool {
        match self.0.as_slice() {
            [] => true,
            [one] => one.get(row) == OrderingValue::Default,
            _ => false,
        }
    }

    /// Compares a row of these with a row of others.
    pub fn compare(&self, row: usize, other: &OrderingValues, other_row: usize) -> Ordering {
        match (self.0.as_slice(), other.0.as_slice()) {
            ([], []) => Ordering::Equal,
            // The usual case, without a value made for each side.
            ([Column::Longs(a)], [Column::Longs(b)]) if a.is_valid(row) && b.is_valid(other_row) => {
                let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
                a.value(row).cmp(&b.value(other_row))
            }
            _ => self.get(row).compare(&other.get(other_row)),
        }
    }
}

impl Column {
    fn of(column: &ArrayRef) -> Result<Column> {
        let converted = |to: DataType| cast(column, &to).map_err(|e| Error::internal(format!("ordering values: {e}")));
        Ok(match column.data_type() {
            DataType::Int64 => Column::Longs(column.clone()),
            DataType::Int32 | DataType::Timestamp(..) | DataType::Time64(_) => {
                Column::Longs(converted(DataType::Int64)?)
            }
            DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => {
                let days = converted(DataType::Int32)?;
                Column::Longs(
                    cast(&days, &DataType::Int64).map_err(|e| Error::internal(format!("ordering values: {e}")))?,
                )
            }
            DataType::Float32 => Column::Doubles(converted(DataType::Float64)?),
            DataType::Float64 => Column::Doubles(column.clone()),
            DataType::Utf8 => Column::Strings(column.clone()),
            DataType::Boolean => Column::Booleans(column.clone()),
            DataType::Binary => Column::Bytes(column.clone()),
            DataType::Decimal128(_, scale) => Column::Decimals(column.clone(), *scale),
            other => return Err(Error::unsupported(format!("values of type {other} have no order"))),
        })
    }

    fn get(&self, row: usize) -> OrderingValue {
        let array = match self {
            Column::Missing => return OrderingValue::Default,
            Column::Longs(a)
            | Column::Doubles(a)
            | Column::Strings(a)
            | Column::Booleans(a)
            | Column::Decimals(a, _)
            | Column::Bytes(a) => a,
        };
        if array.is_null(row) {
            return OrderingValue::Default;
        }
        match self {
            Column::Longs(a) => OrderingValue::Long(a.as_primitive::<Int64Type>().value(row)),
            Column::Doubles(a) => OrderingValue::Double(a.as_primitive::<Float64Type>().value(row)),
            Column::Strings(a) => OrderingValue::String(a.as_string::<i32>().value(row).to_owned()),
            Column::Booleans(a) => OrderingValue::Boolean(a.as_boolean().value(row)),
            Column::Decimals(a, scale) => OrderingValue::Decimal(a.as_primitive::<Decimal128Type>().value(row), *scale),
            Column::Bytes(a) => OrderingValue::Bytes(a.as_binary::<i32>().value(row).to_vec()),
            Column::Missing => OrderingValue::Default,
        }
    }
}
