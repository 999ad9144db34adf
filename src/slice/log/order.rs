//! The ordering values of deletes, as delete blocks have them.

use crate::error::{Error, Result};
use crate::format::log::DeleteOrder;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, Time32MillisecondType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};

/// Digits behind the point of every decimal in a delete block, and in all.
const DECIMAL: (u32, u32) = (15, 30);

/// The columns that order the rows of one batch.
pub(super) struct Orders<'a> {
    columns: Vec<Option<&'a ArrayRef>>,
}

impl<'a> Orders<'a> {
    /// The ordering fields, of which some may lack; a dot leads into a struct.
    pub fn new(rows: &'a RecordBatch, fields: &[String]) -> Orders<'a> {
        let column = |field: &String| {
            let mut parts = field.split('.');
            let first = rows.column_by_name(parts.next()?)?;
            parts.try_fold(first, |column, part| column.as_struct_opt()?.column_by_name(part))
        };
        Orders { columns: fields.iter().map(column).collect() }
    }

    /// The ordering value of a row.
    pub fn of(&self, row: usize) -> Result<DeleteOrder> {
        let mut values = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            values.push(match column {
                Some(column) if column.is_valid(row) => value(column, row)?,
                _ => DeleteOrder::Null,
            });
        }
        if values.iter().all(|value| *value == DeleteOrder::Null) {
            return Ok(DeleteOrder::NONE);
        }
        Ok(if values.len() == 1 { values.remove(0) } else { DeleteOrder::List(values) })
    }
}

fn value(column: &ArrayRef, row: usize) -> Result<DeleteOrder> {
    Ok(match column.data_type() {
        DataType::Boolean => DeleteOrder::Boolean(column.as_boolean().value(row)),
        DataType::Int32 => DeleteOrder::Int(column.as_primitive::<Int32Type>().value(row)),
        DataType::Date32 => DeleteOrder::Int(column.as_primitive::<Date32Type>().value(row)),
        DataType::Time32(TimeUnit::Millisecond) => {
            DeleteOrder::Int(column.as_primitive::<Time32MillisecondType>().value(row))
        }
        DataType::Int64 => DeleteOrder::Long(column.as_primitive::<Int64Type>().value(row)),
        DataType::Time64(TimeUnit::Microsecond) => {
            DeleteOrder::Long(column.as_primitive::<Time64MicrosecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            DeleteOrder::Long(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            DeleteOrder::Long(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Float32 => DeleteOrder::Float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => DeleteOrder::Double(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => DeleteOrder::String(column.as_string::<i32>().value(row).to_owned()),
        DataType::Binary => DeleteOrder::Bytes(column.as_binary::<i32>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => DeleteOrder::Bytes(column.as_fixed_size_binary().value(row).to_vec()),
        DataType::Decimal128(_, scale) => decimal(column.as_primitive::<Decimal128Type>().value(row), *scale)?,
        other => return Err(Error::unsupported(format!("deletes cannot be ordered by a column of {other}"))),
    })
}

fn decimal(unscaled: i128, scale: i8) -> Result<DeleteOrder> {
    let (wanted, digits) = DECIMAL;
    let power = u32::try_from(scale).ok().and_then(|scale| wanted.checked_sub(scale));
    let scaled = power.and_then(|p| 10i128.checked_pow(p)).and_then(|p| unscaled.checked_mul(p));
    let scaled = scaled.filter(|s| s.unsigned_abs() < 10u128.pow(digits));
    scaled.map(DeleteOrder::Decimal).ok_or_else(|| {
        Error::unsupported(format!(
            "a delete ordered by a decimal that does not fit {digits} digits, {wanted} of them behind the point"
        ))
    })
}
