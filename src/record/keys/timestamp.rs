//! The timestamp-based key generator: a partition path made of a moment.

use super::calendar::DateTime;
use super::pattern::Pattern;
use crate::error::{Error, Result};
use crate::format::properties::TableConfig;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};

/// How a value becomes a moment, and the moment a path.
#[derive(Clone, Debug)]
pub(super) struct TimestampFormat {
    /// Milliseconds of one unit of a number, as a fraction; `None` where only text is taken.
    unit: Option<(i64, i64)>,
    /// Patterns of text; the first that fits counts.
    inputs: Vec<Pattern>,
    output: Pattern,
    input_zone: Option<Clock>,
    output_zone: Option<Clock>,
    is_text: bool,
}

/// A time zone. Regions with summer time are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    offset_ms: i64,
}

impl TimestampFormat {
    pub fn new(table: &TableConfig) -> Result<TimestampFormat> {
        let get = |key: &str| {
            let old = format!("hoodie.deltastreamer.keygen.timebased.{key}");
            table.get(&format!("hoodie.keygen.timebased.{key}")).or_else(|| table.get(&old))
        };
        let required = |key: &str| {
            get(key).ok_or_else(|| {
                Error::invalid(format!("a timestamp-based key generator without hoodie.keygen.timebased.{key}"))
            })
        };
        let kind = required("timestamp.type")?;
        let unit = match kind {
            "UNIX_TIMESTAMP" => Some((1000, 1)),
            "EPOCHMILLISECONDS" => Some((1, 1)),
            "EPOCHMICROSECONDS" => Some((1, 1000)),
            "SCALAR" => Some(scalar_unit(get("timestamp.scalar.time.unit").unwrap_or("SECONDS"))?),
            "DATE_STRING" | "MIXED" => None,
            other => return Err(Error::unsupported(format!("hoodie.keygen.timebased.timestamp.type={other}"))),
        };
        let mut inputs = Vec::new();
        if unit.is_none() {
            let delimiter = get("input.dateformat.list.delimiter.regex").unwrap_or(",");
            for pattern in required("input.dateformat")?.split(delimiter) {
                inputs.push(Pattern::parse(pattern.trim())?);
            }
        }
        let both = get("timezone").map(Clock::parse).transpose()?;
        let zone = |key: &str| get(key).map(Clock::parse).transpose();
        Ok(TimestampFormat {
            is_text: unit.is_none(),
            unit,
            inputs,
            output: Pattern::parse(required("output.dateformat")?)?,
            input_zone: both.or(zone("input.timezone")?),
            output_zone: both.or(zone("output.timezone")?),
        })
    }

    /// The path's part for a row; a null counts as the moment 1, as in Java.
    pub fn format(&self, values: &ArrayRef, row: usize) -> Result<String> {
        if values.is_null(row) {
            return match self.is_text {
                false => self.of_number(1),
                // One millisecond, put by the input pattern and read again: its date is all that can show.
                true => self.of_moment(0, self.input_zone.or(self.output_zone).map_or(0, |z| z.offset_ms)),
            };
        }
        if let Some(text) = values.as_string_opt::<i32>() {
            return self.of_text(text.value(row));
        }
        self.of_number(match values.data_type() {
            DataType::Int32 => i64::from(values.as_primitive::<Int32Type>().value(row)),
            DataType::Int64 => values.as_primitive::<Int64Type>().value(row),
            DataType::Date32 => i64::from(values.as_primitive::<Date32Type>().value(row)),
            DataType::Float32 => values.as_primitive::<Float32Type>().value(row) as i64,
            DataType::Float64 => values.as_primitive::<Float64Type>().value(row) as i64,
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                values.as_primitive::<TimestampMillisecondType>().value(row)
            }
            DataType::Timestamp(_, _) => values.as_primitive::<TimestampMicrosecondType>().value(row),
            DataType::Decimal128(_, scale) => {
                let divisor = 10_i128.checked_pow(u32::from(scale.unsigned_abs())).unwrap_or(i128::MAX);
                let value = values.as_primitive::<Decimal128Type>().value(row) / divisor;
                i64::try_from(value).map_err(|_| Error::invalid(format!("{value} is no moment")))?
            }
            other => return Err(Error::unsupported(format!("a moment as {other}"))),
        })
    }

    fn of_number(&self, value: i64) -> Result<String> {
        let (millis, per) = self.unit.ok_or_else(|| {
            Error::invalid(format!(
                "{value} is a number, and the table's hoodie.keygen.timebased.timestamp.type takes text"
            ))
        })?;
        // Java truncates towards zero.
        let epoch_ms = (i128::from(value) * i128::from(millis)) / i128::from(per);
        let epoch_ms = i64::try_from(epoch_ms).map_err(|_| Error::invalid(format!("{value} is beyond all dates")))?;
        match self.output_zone {
            Some(zone) => self.of_moment(epoch_ms, zone.offset_ms),
            None => Ok(self.output.format(&DateTime::local(epoch_ms)?, 0)),
        }
    }

    fn of_text(&self, text: &str) -> Result<String> {
        if self.inputs.is_empty() {
            return Err(Error::invalid(format!(
                "{text:?} is text, and the table's hoodie.keygen.timebased.timestamp.type takes numbers"
            )));
        }
        let (date, told) = self.inputs.iter().find_map(|p| p.read(text)).ok_or_else(|| {
            Error::invalid(format!("{text:?} is not written as hoodie.keygen.timebased.input.dateformat has it"))
        })?;
        // Text without an offset and without a zone is of the machine's zone, before and after: that cancels out.
        let input = told.or(self.input_zone.map(|z| z.offset_ms)).unwrap_or(0);
        let epoch_ms = date.epoch_ms(input).ok_or_else(|| Error::invalid(format!("{text:?} is no date")))?;
        let output = match (self.output_zone, told, self.input_zone) {
            (Some(zone), None, None) if zone.offset_ms != 0 => {
                return Err(Error::invalid(format!("{text:?} does not tell its time zone"))
                    .with_hint("set hoodie.keygen.timebased.input.timezone in the table's properties"));
            }
            (Some(zone), ..) => zone.offset_ms,
            (None, _, Some(zone)) => zone.offset_ms,
            (None, Some(told), None) => told,
            (None, None, None) => 0,
        };
        self.of_moment(epoch_ms, output)
    }

    fn of_moment(&self, epoch_ms: i64, offset_ms: i64) -> Result<String> {
        Ok(self.output.format(&DateTime::of(epoch_ms, offset_ms), offset_ms))
    }
}

fn scalar_unit(name: &str) -> Result<(i64, i64)> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "NANOSECONDS" => (1, 1_000_000),
        "MICROSECONDS" => (1, 1000),
        "MILLISECONDS" => (1, 1),
        "SECONDS" => (1000, 1),
        "MINUTES" => (60_000, 1),
        "HOURS" => (3_600_000, 1),
        "DAYS" => (86_400_000, 1),
        _ => return Err(Error::unsupported(format!("hoodie.keygen.timebased.timestamp.scalar.time.unit={name}"))),
    })
}

impl Clock {
    /// As `java.util.TimeZone` reads it: `UTC`, `GMT`, `GMT+5:30`. Other zones change with the seasons, and this build has no
    /// table of them.
    fn parse(name: &str) -> Result<Clock> {
        let name = name.trim();
        if ["UTC", "GMT", "Z", "UCT", "Etc/UTC", "Etc/GMT", "Zulu", "Universal", "Greenwich"].contains(&name) {
            return Ok(Clock { offset_ms: 0 });
        }
        let offset = name.strip_prefix("GMT").and_then(|rest| {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let digits = rest.get(1..)?;
            let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
                (Some((hours, minutes)), _) => (hours, minutes),
                (None, 1 | 2) => (digits, "0"),
                (None, _) => digits.split_at_checked(digits.len().saturating_sub(2))?,
            };
            let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
        });
        offset.map(|offset_ms| Clock { offset_ms }).ok_or_else(|| {
            Error::unsupported(format!("time zone {name:?} in hoodie.keygen.timebased"))
                .with_hint("UTC, GMT and fixed offsets such as GMT+5:30 are supported")
        })
    }
}
