//! The text that Java has for a value.

use super::calendar;
use crate::error::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    PrimitiveArray, StringArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time32MillisecondType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use std::fmt::Write as _;

/// A column whose values have a text.
pub(super) enum Text<'a> {
    Strings(&'a StringArray),
    Ints(&'a Int32Array),
    Longs(&'a [i64]),
    Ints32(&'a [i32]),
    LongArray(&'a Int64Array),
    Dates(&'a [i32]),
    /// Milliseconds: divisor of the stored values.
    Moments(&'a [i64], i64),
    Booleans(&'a BooleanArray),
    Floats(&'a Float32Array),
    Doubles(&'a Float64Array),
    Decimals(&'a Decimal128Array, u32),
}

/// `Invalid` for types whose text Java does not make in a form that is the same everywhere.
pub(super) fn check_type(ty: &DataType) -> Result<()> {
    match ty {
        DataType::Utf8
        | DataType::Int32
        | DataType::Int64
        | DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Time32(TimeUnit::Millisecond)
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, _)
        | DataType::Decimal128(..) => Ok(()),
        other => Err(Error::unsupported(format!("values of type {other} make no key or partition"))
            .with_hint("use text, numbers, booleans, dates, timestamps or decimals")),
    }
}

impl<'a> Text<'a> {
    pub fn of(array: &'a ArrayRef, timestamps_as_text: bool) -> Result<Text<'a>> {
        check_type(array.data_type())?;
        fn values<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
            let array: &PrimitiveArray<T> = array.as_primitive();
            array.values()
        }
        Ok(match array.data_type() {
            DataType::Utf8 => Text::Strings(array.as_string()),
            DataType::Int32 => Text::Ints(array.as_primitive::<Int32Type>()),
            DataType::Int64 => Text::LongArray(array.as_primitive::<Int64Type>()),
            DataType::Boolean => Text::Booleans(array.as_boolean()),
            DataType::Float32 => Text::Floats(array.as_primitive::<Float32Type>()),
            DataType::Float64 => Text::Doubles(array.as_primitive::<Float64Type>()),
            DataType::Date32 => Text::Dates(values::<Date32Type>(array)),
            DataType::Time32(_) => Text::Ints32(values::<Time32MillisecondType>(array)),
            DataType::Time64(_) => Text::Longs(values::<Time64MicrosecondType>(array)),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                let values = values::<TimestampMillisecondType>(array);
                if timestamps_as_text && zone.is_some() { Text::Moments(values, 1) } else { Text::Longs(values) }
            }
            DataType::Timestamp(_, zone) => {
                let values = values::<TimestampMicrosecondType>(array);
                if timestamps_as_text && zone.is_some() { Text::Moments(values, 1000) } else { Text::Longs(values) }
            }
            DataType::Decimal128(_, scale) => {
                Text::Decimals(array.as_primitive::<Decimal128Type>(), u32::from(scale.unsigned_abs()))
            }
            other => return Err(Error::internal(format!("no text for {other}"))),
        })
    }

    /// Appends the text of a row that is not null.
    pub fn push(&self, row: usize, out: &mut String) -> Result<()> {
        let gone = || Error::internal(format!("row {row} is out of range"));
        match self {
            Text::Strings(array) => out.push_str(array.value(row)),
            Text::Ints(array) => push_int(i64::from(*array.values().get(row).ok_or_else(gone)?), out),
            Text::LongArray(array) => push_int(*array.values().get(row).ok_or_else(gone)?, out),
            Text::Ints32(values) => push_int(i64::from(*values.get(row).ok_or_else(gone)?), out),
            Text::Longs(values) => push_int(*values.get(row).ok_or_else(gone)?, out),
            Text::Dates(values) => calendar::push_date(i64::from(*values.get(row).ok_or_else(gone)?), out),
            Text::Moments(values, per_milli) => {
                let millis = values.get(row).ok_or_else(gone)?.div_euclid(*per_milli);
                calendar::push_local_timestamp(millis, out)?;
            }
            Text::Booleans(array) => out.push_str(if array.value(row) { "true" } else { "false" }),
            Text::Floats(array) => push_float(f64::from(array.value(row)), &format!("{:e}", array.value(row)), out),
            Text::Doubles(array) => push_float(array.value(row), &format!("{:e}", array.value(row)), out),
            Text::Decimals(array, scale) => push_decimal(array.value(row), *scale, out),
        }
        Ok(())
    }
}

/// Decimal digits; the standard formatter takes several times as long, and this runs for every row.
pub(super) fn push_int(value: i64, out: &mut String) {
    let mut digits = [b'0'; 20];
    let mut left = value.unsigned_abs();
    let mut start = digits.len();
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        start = index;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        out.push('-');
    }
    out.push_str(digits.get(start..).and_then(|d| std::str::from_utf8(d).ok()).unwrap_or_default());
}

/// `Double.toString`: plain from 10^-3 to 10^7, else with an exponent; always with a digit behind the point.
/// `scientific` is Rust's shortest form `d.ddde±x`.
fn push_float(value: f64, scientific: &str, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let digits = mantissa.replace('.', "");
    out.push_str(sign);
    let split = |at: usize| (digits.get(..at).unwrap_or_default(), digits.get(at..).unwrap_or_default());
    match exponent {
        _ if value == 0.0 => out.push_str("0.0"),
        0..=6 => {
            let whole = exponent as usize + 1;
            let padded = format!("{digits:0<whole$}");
            let (head, tail) = padded.split_at(whole.min(padded.len()));
            out.push_str(head);
            out.push('.');
            out.push_str(if tail.is_empty() { "0" } else { tail });
        }
        -3..=-1 => {
            out.push_str("0.");
            out.push_str(&"0".repeat((-exponent - 1) as usize));
            out.push_str(&digits);
        }
        _ => {
            let (head, tail) = split(1);
            let _ = write!(out, "{head}.{}E{exponent}", if tail.is_empty() { "0" } else { tail });
        }
    }
}

/// `BigDecimal.toString`: plain unless the value is below 10^-6.
fn push_decimal(unscaled: i128, scale: u32, out: &mut String) {
    let digits = unscaled.unsigned_abs().to_string();
    if unscaled < 0 {
        out.push('-');
    }
    let scale = scale as usize;
    let exponent = digits.len() as i64 - 1 - scale as i64;
    if scale == 0 {
        out.push_str(&digits);
    } else if exponent >= -6 {
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        let _ = write!(out, "{whole}.{fraction}");
    } else {
        let (head, tail) = digits.split_at(1);
        out.push_str(head);
        if !tail.is_empty() {
            let _ = write!(out, ".{tail}");
        }
        let _ = write!(out, "E{exponent}");
    }
}
