//! [`Ranges`]: the smallest and the largest value of each column of rows that pass by, for the metadata table.
//!
//! Columns are leaves: a field of a struct is named with dots; lists and maps have no order and no range. Values are counted
//! with nulls; a not-a-number is left out of a range, as in Parquet's statistics. Text is never cut.

use crate::metadata::{Bound, ColumnRange};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, RecordBatch, StructArray};
use arrow::compute::{max, max_binary, max_boolean, max_string, min, min_binary, min_boolean, min_string};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int32Type, Int64Type, Schema,
    Time32MillisecondType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};

/// Ranges of the columns of one file.
#[derive(Clone, Debug)]
pub struct Ranges {
    columns: Vec<ColumnRange>,
}

impl Ranges {
    /// Of no rows yet, for rows of a schema.
    pub fn new(schema: &Schema) -> Ranges {
        let mut columns = Vec::new();
        schema.fields().iter().for_each(|field| leaves(field, "", &mut columns));
        Ranges { columns }
    }

    /// Takes rows of that schema in.
    pub fn add(&mut self, rows: &RecordBatch) {
        let mut columns = self.columns.iter_mut();
        rows.columns().iter().for_each(|column| add(column, &mut columns));
    }

    /// What was seen.
    pub fn finish(self) -> Vec<ColumnRange> {
        self.columns
    }
}

fn is_leaf(of: &DataType) -> bool {
    !of.is_nested() && !matches!(of, DataType::Null)
}

fn leaves(field: &Field, prefix: &str, columns: &mut Vec<ColumnRange>) {
    let name = format!("{prefix}{}", field.name());
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().for_each(|f| leaves(f, &format!("{name}."), columns)),
        of if is_leaf(of) => columns.push(ColumnRange {
            column: name,
            min: None,
            max: None,
            values: 0,
            nulls: 0,
            bytes: 0,
            uncompressed_bytes: 0,
        }),
        _ => {}
    }
}

fn add<'r>(column: &ArrayRef, ranges: &mut impl Iterator<Item = &'r mut ColumnRange>) {
    match column.data_type() {
        DataType::Struct(_) => {
            let group = column.as_struct();
            for i in 0..group.num_columns() {
                add(&masked(group, i), ranges);
            }
        }
        of if is_leaf(of) => {
            if let Some(range) = ranges.next() {
                range.values += column.len() as u64;
                range.nulls += column.logical_null_count() as u64;
                if let Some((min, max)) = bounds(column) {
                    keep(&mut range.min, min, Less);
                    keep(&mut range.max, max, Greater);
                }
            }
        }
        _ => {}
    }
}

/// A field of a struct, null where the struct is.
fn masked(group: &StructArray, index: usize) -> ArrayRef {
    let column = group.column(index);
    let Some(nulls) = group.nulls() else { return column.clone() };
    let hidden = arrow::array::BooleanArray::new(!nulls.inner(), None);
    arrow::compute::nullif(column, &hidden).unwrap_or_else(|_| column.clone())
}

use std::cmp::Ordering::{Greater, Less};

fn keep(held: &mut Option<Bound>, new: Bound, if_new_is: std::cmp::Ordering) {
    let replaces = match (&*held, &new) {
        (None, _) => true,
        (Some(held), new) => compare(new, held) == if_new_is,
    };
    if replaces {
        *held = Some(new);
    }
}

fn compare(a: &Bound, b: &Bound) -> std::cmp::Ordering {
    match (a, b) {
        (Bound::Boolean(a), Bound::Boolean(b)) => a.cmp(b),
        (Bound::Int(a), Bound::Int(b)) | (Bound::Date(a), Bound::Date(b)) => a.cmp(b),
        (Bound::Float(a), Bound::Float(b)) => a.total_cmp(b),
        (Bound::Double(a), Bound::Double(b)) => a.total_cmp(b),
        (Bound::Bytes(a), Bound::Bytes(b)) => a.cmp(b),
        (Bound::String(a), Bound::String(b)) => a.cmp(b),
        (Bound::Decimal { unscaled: a, .. }, Bound::Decimal { unscaled: b, .. }) => a.cmp(b),
        (Bound::Long(a), Bound::Long(b))
        | (Bound::TimestampMillis(a), Bound::TimestampMillis(b))
        | (Bound::TimestampMicros(a), Bound::TimestampMicros(b))
        | (Bound::LocalTimestampMillis(a), Bound::LocalTimestampMillis(b))
        | (Bound::LocalTimestampMicros(a), Bound::LocalTimestampMicros(b))
        | (Bound::TimeMicros(a), Bound::TimeMicros(b)) => a.cmp(b),
        // A column has one kind of bound.
        _ => std::cmp::Ordering::Equal,
    }
}

fn bounds(column: &ArrayRef) -> Option<(Bound, Bound)> {
    fn of<T: ArrowPrimitiveType>(column: &ArrayRef, bound: impl Fn(T::Native) -> Bound) -> Option<(Bound, Bound)> {
        let array = column.as_primitive_opt::<T>()?;
        Some((bound(min(array)?), bound(max(array)?)))
    }
    match column.data_type() {
        DataType::Boolean => {
            let array = column.as_boolean_opt()?;
            Some((Bound::Boolean(min_boolean(array)?), Bound::Boolean(max_boolean(array)?)))
        }
        DataType::Int32 => of::<Int32Type>(column, Bound::Int),
        DataType::Time32(TimeUnit::Millisecond) => of::<Time32MillisecondType>(column, Bound::Int),
        DataType::Date32 => of::<Date32Type>(column, Bound::Date),
        DataType::Int64 => of::<Int64Type>(column, Bound::Long),
        DataType::Time64(TimeUnit::Microsecond) => of::<Time64MicrosecondType>(column, Bound::TimeMicros),
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            of::<TimestampMillisecondType>(column, Bound::LocalTimestampMillis)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(column, Bound::TimestampMillis),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            of::<TimestampMicrosecondType>(column, Bound::LocalTimestampMicros)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(column, Bound::TimestampMicros),
        DataType::Float32 => {
            let values = column.as_primitive_opt::<Float32Type>()?;
            let values = || values.iter().flatten().filter(|v| !v.is_nan());
            Some((Bound::Float(values().min_by(f32::total_cmp)?), Bound::Float(values().max_by(f32::total_cmp)?)))
        }
        DataType::Float64 => {
            let values = column.as_primitive_opt::<Float64Type>()?;
            let values = || values.iter().flatten().filter(|v| !v.is_nan());
            Some((Bound::Double(values().min_by(f64::total_cmp)?), Bound::Double(values().max_by(f64::total_cmp)?)))
        }
        DataType::Decimal128(precision, scale) => {
            let bound = |unscaled| Bound::Decimal { unscaled, precision: *precision, scale: *scale };
            of::<Decimal128Type>(column, bound)
        }
        DataType::Utf8 => {
            let array = column.as_string_opt::<i32>()?;
            Some((Bound::String(min_string(array)?.to_owned()), Bound::String(max_string(array)?.to_owned())))
        }
        DataType::Binary => {
            let array = column.as_binary_opt::<i32>()?;
            Some((Bound::Bytes(min_binary(array)?.to_vec()), Bound::Bytes(max_binary(array)?.to_vec())))
        }
        DataType::FixedSizeBinary(_) => {
            let array = column.as_fixed_size_binary_opt()?;
            let values = || array.iter().flatten();
            Some((Bound::Bytes(values().min()?.to_vec()), Bound::Bytes(values().max()?.to_vec())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray};
    use arrow::datatypes::Fields;
    use std::sync::Arc;

    #[test]
    fn ranges_of_all_batches() {
        let inner = Fields::from(vec![Field::new("b", DataType::Int32, true)]);
        let schema = Arc::new(Schema::new(vec![
            Field::new("s", DataType::Utf8, true),
            Field::new("a", DataType::Struct(inner.clone()), true),
            Field::new("l", DataType::new_list(DataType::Int32, true), true),
            Field::new("d", DataType::Float64, true),
        ]));
        let mut ranges = Ranges::new(&schema);
        let batch = |s: [Option<&str>; 2], b: [i32; 2], d: [f64; 2]| {
            let nulls = arrow::buffer::NullBuffer::from(vec![true, false]);
            let group = StructArray::new(inner.clone(), vec![Arc::new(Int32Array::from(b.to_vec()))], Some(nulls));
            let lists = arrow::array::new_null_array(schema.field(2).data_type(), 2);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(s.to_vec())),
                Arc::new(group),
                lists,
                Arc::new(Float64Array::from(d.to_vec())),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        };
        ranges.add(&batch([Some("m"), None], [5, -100], [f64::NAN, 1.0]));
        ranges.add(&batch([Some("x"), Some("b")], [7, 100], [-0.5, f64::NAN]));
        let found = ranges.finish();
        let told: Vec<_> =
            found.iter().map(|r| (r.column.as_str(), r.min.clone(), r.max.clone(), r.values, r.nulls)).collect();
        let text = |t: &str| Some(Bound::String(t.into()));
        assert_eq!(
            told,
            [
                ("s", text("b"), text("x"), 4, 1),
                ("a.b", Some(Bound::Int(5)), Some(Bound::Int(7)), 4, 2),
                ("d", Some(Bound::Double(-0.5)), Some(Bound::Double(1.0)), 4, 0),
            ]
        );
    }

    #[test]
    fn no_rows_have_no_range() {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true)]);
        let found = Ranges::new(&schema).finish();
        assert_eq!((found.len(), &found[0].min, found[0].values), (1, &None, 0));
    }
}
