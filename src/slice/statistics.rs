//! Ranges of a file's columns, from its own statistics.
//!
//! A column of which any part lacks exact statistics (foreign writers leave out those of long texts) is left out as a whole: a
//! range that is too narrow would hide rows from queries.

use crate::metadata::{Bound, ColumnRange};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::data_type::AsBytes;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use std::cmp::Ordering;

/// Texts of up to so many bytes are not cut by any writer.
const NEVER_CUT: usize = 32;

/// The ranges of all columns that are not within lists and maps. `is_javas`: parts of the file were written by Java, which
/// never cuts bounds and does not say so.
pub(super) fn of_file(metadata: &ParquetMetaData, is_javas: bool) -> Vec<ColumnRange> {
    let schema = metadata.file_metadata().schema_descr();
    let leaves = (0..schema.num_columns()).filter(|leaf| schema.column(*leaf).max_rep_level() == 0);
    leaves.filter_map(|leaf| of_column(metadata, leaf, &schema.column(leaf), is_javas)).collect()
}

fn of_column(
    metadata: &ParquetMetaData,
    leaf: usize,
    descriptor: &ColumnDescriptor,
    is_javas: bool,
) -> Option<ColumnRange> {
    let mut range = ColumnRange {
        column: descriptor.path().string(),
        min: None,
        max: None,
        values: 0,
        nulls: 0,
        bytes: 0,
        uncompressed_bytes: 0,
    };
    for group in metadata.row_groups() {
        let chunk = group.columns().get(leaf)?;
        let values = u64::try_from(group.num_rows()).ok()?;
        let statistics = chunk.statistics()?;
        let nulls = match statistics.null_count_opt() {
            Some(nulls) => nulls,
            None if descriptor.max_def_level() == 0 => 0,
            None => return None,
        };
        range.values += values;
        range.nulls += nulls;
        range.bytes += u64::try_from(chunk.compressed_size()).unwrap_or(0);
        range.uncompressed_bytes += u64::try_from(chunk.uncompressed_size()).unwrap_or(0);
        if nulls == values {
            continue;
        }
        if !is_exact(statistics, is_javas) {
            return None;
        }
        let (min, max) = bounds(statistics, descriptor)?;
        // Of a row group in which there are no other numbers; elsewhere they are left out of the bounds.
        if is_nan(&min) || is_nan(&max) {
            continue;
        }
        range.min = Some(extreme(range.min.take(), min, Ordering::Less));
        range.max = Some(extreme(range.max.take(), max, Ordering::Greater));
    }
    Some(range)
}

fn is_exact(statistics: &Statistics, is_javas: bool) -> bool {
    let uncut =
        |bytes: Option<&[u8]>, is_exact: bool| is_exact || is_javas || bytes.is_some_and(|b| b.len() <= NEVER_CUT);
    let is_bytes = matches!(statistics, Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_));
    !statistics.is_min_max_deprecated()
        && (!is_bytes
            || (uncut(statistics.min_bytes_opt(), statistics.min_is_exact())
                && uncut(statistics.max_bytes_opt(), statistics.max_is_exact())))
}

fn bounds(statistics: &Statistics, descriptor: &ColumnDescriptor) -> Option<(Bound, Bound)> {
    let both = |min: Option<Bound>, max: Option<Bound>| Some((min?, max?));
    match statistics {
        Statistics::Boolean(s) => {
            both(s.min_opt().copied().map(Bound::Boolean), s.max_opt().copied().map(Bound::Boolean))
        }
        Statistics::Int32(s) => {
            let bound = |v: &i32| of_i32(*v, descriptor);
            both(s.min_opt().and_then(bound), s.max_opt().and_then(bound))
        }
        Statistics::Int64(s) => {
            let bound = |v: &i64| of_i64(*v, descriptor);
            both(s.min_opt().and_then(bound), s.max_opt().and_then(bound))
        }
        Statistics::Float(s) => both(s.min_opt().copied().map(Bound::Float), s.max_opt().copied().map(Bound::Float)),
        Statistics::Double(s) => both(s.min_opt().copied().map(Bound::Double), s.max_opt().copied().map(Bound::Double)),
        Statistics::ByteArray(s) => {
            let bound = |v: &parquet::data_type::ByteArray| of_bytes(v.as_bytes(), descriptor);
            both(s.min_opt().and_then(bound), s.max_opt().and_then(bound))
        }
        Statistics::FixedLenByteArray(s) => {
            let bound = |v: &parquet::data_type::FixedLenByteArray| of_bytes(v.as_bytes(), descriptor);
            both(s.min_opt().and_then(bound), s.max_opt().and_then(bound))
        }
        Statistics::Int96(_) => None,
    }
}

fn is_nan(bound: &Bound) -> bool {
    match bound {
        Bound::Float(value) => value.is_nan(),
        Bound::Double(value) => value.is_nan(),
        _ => false,
    }
}

fn of_i32(value: i32, descriptor: &ColumnDescriptor) -> Option<Bound> {
    if let Some((precision, scale)) = decimal(descriptor) {
        return Some(Bound::Decimal { unscaled: i128::from(value), precision, scale });
    }
    let is_date = matches!(descriptor.logical_type_ref(), Some(LogicalType::Date))
        || descriptor.converted_type() == ConvertedType::DATE;
    Some(if is_date { Bound::Date(value) } else { Bound::Int(value) })
}

fn of_i64(value: i64, descriptor: &ColumnDescriptor) -> Option<Bound> {
    if let Some((precision, scale)) = decimal(descriptor) {
        return Some(Bound::Decimal { unscaled: i128::from(value), precision, scale });
    }
    Some(match descriptor.logical_type_ref() {
        Some(LogicalType::Timestamp(ts)) => match (&ts.unit, ts.is_adjusted_to_u_t_c) {
            (TimeUnit::MILLIS, true) => Bound::TimestampMillis(value),
            (TimeUnit::MICROS, true) => Bound::TimestampMicros(value),
            (TimeUnit::MILLIS, false) => Bound::LocalTimestampMillis(value),
            (TimeUnit::MICROS, false) => Bound::LocalTimestampMicros(value),
            (TimeUnit::NANOS, _) => return None,
        },
        Some(LogicalType::Time(_)) => Bound::TimeMicros(value),
        _ => match descriptor.converted_type() {
            ConvertedType::TIMESTAMP_MILLIS => Bound::TimestampMillis(value),
            ConvertedType::TIMESTAMP_MICROS => Bound::TimestampMicros(value),
            ConvertedType::TIME_MICROS => Bound::TimeMicros(value),
            _ => Bound::Long(value),
        },
    })
}

fn of_bytes(bytes: &[u8], descriptor: &ColumnDescriptor) -> Option<Bound> {
    if let Some((precision, scale)) = decimal(descriptor) {
        return Some(Bound::Decimal { unscaled: big_endian(bytes)?, precision, scale });
    }
    let is_text = matches!(descriptor.logical_type_ref(), Some(LogicalType::String | LogicalType::Enum))
        || matches!(descriptor.converted_type(), ConvertedType::UTF8 | ConvertedType::ENUM);
    match is_text {
        true => std::str::from_utf8(bytes).ok().map(|text| Bound::String(text.to_owned())),
        false => Some(Bound::Bytes(bytes.to_vec())),
    }
}

fn decimal(descriptor: &ColumnDescriptor) -> Option<(u8, i8)> {
    let (precision, scale) = match descriptor.logical_type_ref() {
        Some(LogicalType::Decimal(decimal)) => (decimal.precision, decimal.scale),
        _ if descriptor.converted_type() == ConvertedType::DECIMAL => {
            (descriptor.type_precision(), descriptor.type_scale())
        }
        _ => return None,
    };
    Some((u8::try_from(precision).ok()?, i8::try_from(scale).ok()?))
}

fn big_endian(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    let mut wide = [if first & 0x80 != 0 { 0xff } else { 0 }; 16];
    let start = wide.len().checked_sub(bytes.len())?;
    wide.get_mut(start..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

fn extreme(held: Option<Bound>, new: Bound, wanted: Ordering) -> Bound {
    match held {
        Some(held) if compare(&new, &held) != wanted => held,
        _ => new,
    }
}

/// Bounds of one column are of one type.
fn compare(a: &Bound, b: &Bound) -> Ordering {
    match (a, b) {
        (Bound::Boolean(a), Bound::Boolean(b)) => a.cmp(b),
        (Bound::Int(a), Bound::Int(b)) | (Bound::Date(a), Bound::Date(b)) => a.cmp(b),
        (Bound::Float(a), Bound::Float(b)) => a.total_cmp(b),
        (Bound::Double(a), Bound::Double(b)) => a.total_cmp(b),
        (Bound::String(a), Bound::String(b)) => a.cmp(b),
        (Bound::Bytes(a), Bound::Bytes(b)) => a.cmp(b),
        (Bound::Decimal { unscaled: a, .. }, Bound::Decimal { unscaled: b, .. }) => a.cmp(b),
        (Bound::Long(a), Bound::Long(b))
        | (Bound::TimestampMillis(a), Bound::TimestampMillis(b))
        | (Bound::TimestampMicros(a), Bound::TimestampMicros(b))
        | (Bound::LocalTimestampMillis(a), Bound::LocalTimestampMillis(b))
        | (Bound::LocalTimestampMicros(a), Bound::LocalTimestampMicros(b))
        | (Bound::TimeMicros(a), Bound::TimeMicros(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}
