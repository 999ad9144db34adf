//! [`Stats`]: one record of column statistics, of a file or of a partition, and how records of one column are combined.
//!
//! Bounds are kept in the wrapper that they are stored in. The first generation wraps a value by its Java type and says no
//! more; the second wraps a plain value and names its type beside it. Hudi's readers prune on what is written here, so that a
//! bound that is not certain is never written: the whole record is left out or deleted instead.

use super::ranges::{Bound, ColumnRange};
use super::write::record::{put_branch, put_bytes, put_long, put_text};
use crate::error::{Error, Result};
use crate::format::avro::{Cursor, Schema};
use std::cmp::Ordering;

/// The digits and the scale that the first generation rescales decimals to.
const DECIMAL_V1: (u8, i8) = (30, 15);

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

/// A bound as it is stored; the order is that of the union's branches, from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wrapped {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    String(String),
    Date(i32),
    Decimal(Vec<u8>),
    TimeMicros(i64),
    TimestampMicros(i64),
    LocalDate(i32),
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

impl Wrapped {
    fn read(cursor: &mut Cursor<'_, '_>) -> Result<Wrapped> {
        let branch = cursor.branch()?;
        let mut read = Wrapped::Null;
        cursor.record(|_, cursor| {
            let int = |n: Option<i64>| n.unwrap_or(0) as i32;
            read = match branch {
                1 => Wrapped::Boolean(cursor.bool()?.unwrap_or(false)),
                2 => Wrapped::Int(int(cursor.long()?)),
                3 => Wrapped::Long(cursor.long()?.unwrap_or(0)),
                4 => Wrapped::Float(cursor.double()?.unwrap_or(0.0) as f32),
                5 => Wrapped::Double(cursor.double()?.unwrap_or(0.0)),
                6 => Wrapped::Bytes(cursor.bytes()?.unwrap_or_default().to_vec()),
                7 => Wrapped::String(cursor.str()?.unwrap_or_default().to_owned()),
                8 => Wrapped::Date(int(cursor.long()?)),
                9 => Wrapped::Decimal(cursor.bytes()?.unwrap_or_default().to_vec()),
                10 => Wrapped::TimeMicros(cursor.long()?.unwrap_or(0)),
                11 => Wrapped::TimestampMicros(cursor.long()?.unwrap_or(0)),
                12 => Wrapped::LocalDate(int(cursor.long()?)),
                other => return Err(Error::unsupported(format!("column statistics of wrapper {other}"))),
            };
            Ok(())
        })?;
        Ok(read)
    }

    /// Appends branch and value.
    pub fn put(&self, out: &mut Vec<u8>) {
        let branch = match self {
            Wrapped::Null => 0,
            Wrapped::Boolean(_) => 1,
            Wrapped::Int(_) => 2,
            Wrapped::Long(_) => 3,
            Wrapped::Float(_) => 4,
            Wrapped::Double(_) => 5,
            Wrapped::Bytes(_) => 6,
            Wrapped::String(_) => 7,
            Wrapped::Date(_) => 8,
            Wrapped::Decimal(_) => 9,
            Wrapped::TimeMicros(_) => 10,
            Wrapped::TimestampMicros(_) => 11,
            Wrapped::LocalDate(_) => 12,
        };
        put_branch(out, branch);
        match self {
            Wrapped::Null => {}
            Wrapped::Boolean(b) => out.push(u8::from(*b)),
            Wrapped::Int(n) | Wrapped::Date(n) | Wrapped::LocalDate(n) => put_long(out, i64::from(*n)),
            Wrapped::Long(n) | Wrapped::TimeMicros(n) | Wrapped::TimestampMicros(n) => put_long(out, *n),
            Wrapped::Float(f) => out.extend_from_slice(&f.to_le_bytes()),
            Wrapped::Double(f) => out.extend_from_slice(&f.to_le_bytes()),
            Wrapped::Bytes(b) | Wrapped::Decimal(b) => put_bytes(out, b),
            Wrapped::String(s) => put_text(out, s),
        }
    }

    /// The bound of two that lies on the side asked for; `None` if they cannot be compared. Null is no bound.
    fn choose(a: &Wrapped, b: &Wrapped, side: Ordering, is_decimal: bool) -> Option<Wrapped> {
        let (a, b) = match (a, b) {
            (Wrapped::Null, other) | (other, Wrapped::Null) => return Some(other.clone()),
            _ => a.alike(b)?,
        };
        let order = a.compare(&b, is_decimal)?;
        Some(if order == side { a } else { b })
    }

    /// Both in the wider type of the two.
    fn alike(&self, other: &Wrapped) -> Option<(Wrapped, Wrapped)> {
        let rank = |w: &Wrapped| match w {
            Wrapped::Int(_) => Some(0),
            Wrapped::Long(_) => Some(1),
            Wrapped::Float(_) => Some(2),
            Wrapped::Double(_) => Some(3),
            _ => None,
        };
        if std::mem::discriminant(self) == std::mem::discriminant(other) {
            return Some((self.clone(), other.clone()));
        }
        let to = rank(self)?.max(rank(other)?);
        Some((self.widened(to)?, other.widened(to)?))
    }

    fn widened(&self, rank: u8) -> Option<Wrapped> {
        let (whole, real) = match self {
            Wrapped::Int(n) => (Some(i64::from(*n)), f64::from(*n)),
            Wrapped::Long(n) => (Some(*n), *n as f64),
            Wrapped::Float(f) => (None, f64::from(*f)),
            Wrapped::Double(f) => (None, *f),
            _ => return None,
        };
        match rank {
            1 => whole.map(Wrapped::Long),
            2 => Some(Wrapped::Float(real as f32)),
            _ => Some(Wrapped::Double(real)),
        }
    }

    fn compare(&self, other: &Wrapped, is_decimal: bool) -> Option<Ordering> {
        Some(match (self, other) {
            (Wrapped::Boolean(a), Wrapped::Boolean(b)) => a.cmp(b),
            (Wrapped::Int(a), Wrapped::Int(b))
            | (Wrapped::Date(a), Wrapped::Date(b))
            | (Wrapped::LocalDate(a), Wrapped::LocalDate(b)) => a.cmp(b),
            (Wrapped::Long(a), Wrapped::Long(b))
            | (Wrapped::TimeMicros(a), Wrapped::TimeMicros(b))
            | (Wrapped::TimestampMicros(a), Wrapped::TimestampMicros(b)) => a.cmp(b),
            (Wrapped::Float(a), Wrapped::Float(b)) => a.partial_cmp(b)?,
            (Wrapped::Double(a), Wrapped::Double(b)) => a.partial_cmp(b)?,
            (Wrapped::Decimal(a), Wrapped::Decimal(b)) => unscaled(a)?.cmp(&unscaled(b)?),
            (Wrapped::Bytes(a), Wrapped::Bytes(b)) if is_decimal => unscaled(a)?.cmp(&unscaled(b)?),
            (Wrapped::Bytes(a), Wrapped::Bytes(b)) => a.cmp(b),
            (Wrapped::String(a), Wrapped::String(b)) => a.cmp(b),
            _ => return None,
        })
    }
}

/// A value in its wrapper with its type, second generation; `None` if the generation cannot hold it.
fn wrap(bound: &Bound, version: StatsVersion) -> Option<(Wrapped, (i32, Option<String>))> {
    let v1 = version == StatsVersion::V1;
    let (wrapped, ordinal) = match bound {
        Bound::Boolean(b) => (Wrapped::Boolean(*b), 2),
        Bound::Int(n) => (Wrapped::Int(*n), 3),
        Bound::Long(n) => (Wrapped::Long(*n), 4),
        Bound::Float(f) => (Wrapped::Float(*f), 5),
        Bound::Double(f) => (Wrapped::Double(*f), 6),
        Bound::String(s) => (Wrapped::String(s.clone()), 7),
        Bound::Bytes(b) => (Wrapped::Bytes(b.clone()), 8),
        Bound::Date(n) if v1 => (Wrapped::Date(*n), 12),
        Bound::Date(n) => (Wrapped::Int(*n), 12),
        Bound::TimeMicros(n) => (Wrapped::Long(*n), 14),
        Bound::TimestampMillis(n) => (Wrapped::Long(*n), 15),
        Bound::TimestampMicros(n) => (Wrapped::Long(*n), 16),
        Bound::LocalTimestampMillis(n) => (Wrapped::Long(*n), 18),
        Bound::LocalTimestampMicros(n) => (Wrapped::Long(*n), 19),
        Bound::Decimal { unscaled, precision, scale } if v1 => {
            let (digits, to) = DECIMAL_V1;
            let up = u32::try_from(to.checked_sub(*scale)?).ok()?;
            if u32::from(*precision) + up > u32::from(digits) {
                return None;
            }
            (Wrapped::Decimal(big_endian(unscaled.checked_mul(10i128.checked_pow(up)?)?)), DECIMAL)
        }
        Bound::Decimal { unscaled, precision, scale } => {
            return Some((Wrapped::Bytes(big_endian(*unscaled)), (DECIMAL, Some(format!("{precision},{scale}")))));
        }
    };
    Some((wrapped, (ordinal, None)))
}

/// Two's complement, big-endian, in as few bytes as hold it.
fn big_endian(value: i128) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let redundant = |pair: &&[u8]| match **pair {
        [0, next] => next < 0x80,
        [0xff, next] => next >= 0x80,
        _ => false,
    };
    let skip = bytes.windows(2).take_while(redundant).count();
    bytes.get(skip..).unwrap_or_default().to_vec()
}

fn unscaled(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [sign; 16];
    wide.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}
