//! [`Stats`]: one record of column statistics, of a file or of a partition, and how records of one column are combined.
//!
//! Bounds are kept in the wrapper that they are stored in. The first generation wraps a value by its Java type and says no
//! more; the second wraps a plain value and names its type beside it. Hudi's readers prune on what is written here, so that a
//! bound that is not certain is never written: the whole record is left out or deleted instead.

mod wrapped;

use super::ranges::ColumnRange;
use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema};
use std::cmp::Ordering;
pub(super) use wrapped::Wrapped;
use wrapped::wrap;

/// Ordinals of types, second generation.
const NULL: i32 = 1;
const DECIMAL: i32 = 10;

/// Which generation of column statistics a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsVersion {
    /// Values by their Java type.
    V1,
    /// Plain values with their type.
    V2,
}

/// One record. Counts may be -1 in a record that only deletes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stats {
    /// The file's name, or the partition's path.
    pub file: String,
    pub column: String,
    pub min: Wrapped,
    pub max: Wrapped,
    pub values: i64,
    pub nulls: i64,
    pub bytes: i64,
    pub uncompressed_bytes: i64,
    pub is_deleted: bool,
    pub is_tight: bool,
    /// The type's ordinal and what else is to be known of it; second generation only.
    pub value_type: Option<(i32, Option<String>)>,
}

impl Stats {
    /// The record of a column of a file; `None` if nothing certain can be said of it.
    pub fn of_file(file: &str, range: &ColumnRange, version: StatsVersion) -> Option<Stats> {
        let (min, max, value_type) = match (&range.min, &range.max) {
            (Some(min), Some(max)) => {
                let (min, value_type) = wrap(min, version)?;
                (min, wrap(max, version)?.0, value_type)
            }
            // Values without bounds: of a type without an order, or not comparable.
            _ if range.values > range.nulls => return None,
            _ => (Wrapped::Null, Wrapped::Null, (NULL, None)),
        };
        let count = |n: u64| i64::try_from(n).ok();
        Some(Stats {
            file: file.to_owned(),
            column: range.column.clone(),
            min,
            max,
            values: count(range.values)?,
            nulls: count(range.nulls)?,
            bytes: count(range.bytes)?,
            uncompressed_bytes: count(range.uncompressed_bytes)?,
            is_deleted: false,
            is_tight: false,
            value_type: (version == StatsVersion::V2).then_some(value_type),
        })
    }

    /// The record that deletes what is known of a column of a file.
    pub fn deleted(file: &str, column: &str, version: StatsVersion) -> Stats {
        Stats {
            file: file.to_owned(),
            column: column.to_owned(),
            min: Wrapped::Null,
            max: Wrapped::Null,
            values: -1,
            nulls: -1,
            bytes: -1,
            uncompressed_bytes: -1,
            is_deleted: true,
            is_tight: false,
            value_type: (version == StatsVersion::V2).then_some((NULL, None)),
        }
    }

    /// Reads the record that a value holds; `Corrupt` if it holds none.
    pub fn decode(schema: &Schema, value: &[u8]) -> Result<Stats> {
        let mut found = None;
        Cursor::new(schema, value).record(|field, cursor| {
            if field == "ColumnStatsMetadata" {
                let mut stats = Stats::deleted("", "", StatsVersion::V1);
                if cursor.record(|field, cursor| stats.read_field(field, cursor))? {
                    found = Some(stats);
                }
            }
            Ok(())
        })?;
        found.ok_or_else(|| Error::corrupt("record without column statistics"))
    }

    fn read_field(&mut self, field: &str, cursor: &mut Cursor<'_, '_>) -> Result<()> {
        match field {
            "fileName" => self.file = cursor.str()?.unwrap_or_default().to_owned(),
            "columnName" => self.column = cursor.str()?.unwrap_or_default().to_owned(),
            "minValue" => self.min = Wrapped::read(cursor)?,
            "maxValue" => self.max = Wrapped::read(cursor)?,
            "valueCount" => self.values = cursor.long()?.unwrap_or(0),
            "nullCount" => self.nulls = cursor.long()?.unwrap_or(0),
            "totalSize" => self.bytes = cursor.long()?.unwrap_or(0),
            "totalUncompressedSize" => self.uncompressed_bytes = cursor.long()?.unwrap_or(0),
            "isDeleted" => self.is_deleted = cursor.bool()?.unwrap_or(false),
            "isTightBound" => self.is_tight = cursor.bool()?.unwrap_or(false),
            "valueType" => {
                let (mut ordinal, mut info) = (0, None);
                let present = cursor.record(|field, cursor| {
                    match field {
                        "typeOrdinal" => ordinal = cursor.long()?.unwrap_or(0),
                        "additionalInfo" => info = cursor.str()?.map(str::to_owned),
                        _ => {}
                    }
                    Ok(())
                })?;
                self.value_type = present.then_some((ordinal as i32, info));
            }
            _ => {}
        }
        Ok(())
    }

    /// This record on top of an older one of its key, as Hudi merges them.
    pub fn over(self, older: &Stats) -> Stats {
        if self.is_deleted || older.is_deleted || self.is_tight {
            return self;
        }
        let mut merged = older.clone();
        let is_certain = merged.widen(&self);
        let is_deleted = !is_certain;
        Stats { file: self.file, column: self.column, is_tight: self.is_tight, is_deleted, ..merged }
    }

    /// Takes another range of the same column in; false if the two cannot be compared, and nothing is known any more.
    pub fn widen(&mut self, other: &Stats) -> bool {
        let kind = match (&self.value_type, &other.value_type) {
            (Some((NULL, _)), _) => other.value_type.clone(),
            (_, Some((NULL, _))) => self.value_type.clone(),
            (Some(a), Some(b)) if a != b => match (a.0, b.0) {
                // Types that grow: int, long, float, double.
                (3..=6, 3..=6) => Some(if a.0 > b.0 { a.clone() } else { b.clone() }),
                _ => return false,
            },
            _ => self.value_type.clone(),
        };
        let is_decimal = kind.as_ref().is_some_and(|(ordinal, _)| *ordinal == DECIMAL);
        let Some(min) = Wrapped::choose(&self.min, &other.min, Ordering::Less, is_decimal) else { return false };
        let Some(max) = Wrapped::choose(&self.max, &other.max, Ordering::Greater, is_decimal) else { return false };
        (self.min, self.max, self.value_type) = (min, max, kind);
        self.values += other.values;
        self.nulls += other.nulls;
        self.bytes += other.bytes;
        self.uncompressed_bytes += other.uncompressed_bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Bound;
    use crate::metadata::write::record::{Encoder, RecordType};
    use crate::metadata::write::schema::RecordFormat;

    fn range(min: Option<Bound>, max: Option<Bound>, values: u64, nulls: u64) -> ColumnRange {
        ColumnRange { column: "c".to_owned(), min, max, values, nulls, bytes: 5, uncompressed_bytes: 6 }
    }

    fn of(min: Bound, max: Bound, version: StatsVersion) -> Option<Stats> {
        Stats::of_file("f", &range(Some(min), Some(max), 3, 1), version)
    }

    fn decimal(unscaled: i128, precision: u8, scale: i8) -> Bound {
        Bound::Decimal { unscaled, precision, scale }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let bounds = [
            (Bound::Boolean(false), Bound::Boolean(true)),
            (Bound::Int(-3), Bound::Int(i32::MAX)),
            (Bound::Long(i64::MIN), Bound::Long(0)),
            (Bound::Float(-1.5), Bound::Float(2.5)),
            (Bound::Double(-1.5), Bound::Double(1e300)),
            (Bound::String(String::new()), Bound::String("é".to_owned())),
            (Bound::Bytes(vec![]), Bound::Bytes(vec![255])),
            (Bound::Date(-1), Bound::Date(20_000)),
            (decimal(-12345, 10, 2), decimal(99, 10, 2)),
            (Bound::TimestampMicros(-1), Bound::TimestampMicros(1)),
            (Bound::LocalTimestampMillis(-1), Bound::LocalTimestampMillis(1)),
            (Bound::TimeMicros(0), Bound::TimeMicros(1)),
        ];
        for (format, version) in [
            (RecordFormat::V6, StatsVersion::V1),
            (RecordFormat::V8, StatsVersion::V1),
            (RecordFormat::V9, StatsVersion::V2),
        ] {
            let schema = format.schema().unwrap();
            for (min, max) in &bounds {
                let stats = of(min.clone(), max.clone(), version).unwrap();
                let value = Encoder::new(format).stats(RecordType::ColumnStats, &stats);
                assert_eq!(Stats::decode(&schema, &value).unwrap(), stats, "{format:?}");
                Cursor::new(&schema, &value).finish().unwrap();
            }
            let gone = Stats::deleted("f", "c", version);
            let value = Encoder::new(format).stats(RecordType::ColumnStats, &gone);
            assert_eq!(Stats::decode(&schema, &value).unwrap(), gone);
        }
    }

    #[test]
    fn what_is_not_certain_is_left_out() {
        let v1 = StatsVersion::V1;
        assert!(Stats::of_file("f", &range(None, None, 3, 1), v1).is_none());
        assert_eq!(Stats::of_file("f", &range(None, None, 3, 3), v1).unwrap().min, Wrapped::Null);
        assert_eq!(Stats::of_file("f", &range(None, None, 0, 0), v1).unwrap().values, 0);
        // Decimals are rescaled to 15 digits behind the point, of 30.
        assert!(of(decimal(1, 20, 2), decimal(2, 20, 2), v1).is_none());
        assert!(of(decimal(1, 20, 2), decimal(2, 20, 2), StatsVersion::V2).is_some());
        let rescaled = of(decimal(12, 10, 14), decimal(-13, 10, 14), v1).unwrap();
        assert_eq!((rescaled.min, rescaled.max), (Wrapped::Decimal(vec![120]), Wrapped::Decimal(vec![0xff, 0x7e])));
    }

    #[test]
    fn ranges_are_combined_and_never_guessed() {
        let v2 = StatsVersion::V2;
        let mut whole = of(Bound::Int(1), Bound::Int(5), v2).unwrap();
        assert!(whole.widen(&of(Bound::Long(-7), Bound::Long(2), v2).unwrap()));
        assert_eq!((&whole.min, &whole.max), (&Wrapped::Long(-7), &Wrapped::Long(5)));
        assert_eq!((whole.values, whole.nulls, whole.value_type.clone()), (6, 2, Some((4, None))));
        let nulls = Stats::of_file("f", &range(None, None, 2, 2), v2).unwrap();
        assert!(whole.widen(&nulls));
        assert_eq!((whole.values, whole.nulls, whole.value_type.clone()), (8, 4, Some((4, None))));
        assert!(!whole.clone().widen(&of(Bound::String("a".into()), Bound::String("b".into()), v2).unwrap()));
        assert!(!whole.clone().widen(&of(Bound::TimestampMicros(1), Bound::TimestampMicros(2), v2).unwrap()));
        let mut negative = of(decimal(-300, 10, 2), decimal(-200, 10, 2), v2).unwrap();
        assert!(negative.widen(&of(decimal(-1, 10, 2), decimal(5, 10, 2), v2).unwrap()));
        assert_eq!((negative.min, negative.max), (Wrapped::Bytes(vec![0xfe, 0xd4]), Wrapped::Bytes(vec![5])));
    }

    #[test]
    fn newer_records_go_over_older_ones_as_in_hudi() {
        let v2 = StatsVersion::V2;
        let old = of(Bound::Int(1), Bound::Int(5), v2).unwrap();
        let new = of(Bound::Int(2), Bound::Int(9), v2).unwrap();
        let merged = new.clone().over(&old);
        assert_eq!((merged.min, merged.max, merged.values), (Wrapped::Int(1), Wrapped::Int(9), 6));
        let tight = Stats { is_tight: true, ..new.clone() };
        assert_eq!(tight.clone().over(&old), tight);
        let gone = Stats::deleted("f", "c", v2);
        assert_eq!(gone.clone().over(&old), gone);
        assert_eq!(new.clone().over(&gone), new);
    }
}
