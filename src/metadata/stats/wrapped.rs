//! [`Wrapped`]: a bound in the form in which it is stored.

use super::{DECIMAL, StatsVersion};
use crate::error::{Error, Result};
use crate::format::avro::Cursor;
use crate::metadata::Bound;
use crate::metadata::write::record::{put_branch, put_bytes, put_long, put_text};
use std::cmp::Ordering;

/// The digits and the scale that the first generation rescales decimals to.
const DECIMAL_V1: (u8, i8) = (30, 15);

/// A bound as it is stored; the order is that of the union's branches, from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Wrapped {
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

impl Wrapped {
    pub fn read(cursor: &mut Cursor<'_, '_>) -> Result<Wrapped> {
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
    pub fn choose(a: &Wrapped, b: &Wrapped, side: Ordering, is_decimal: bool) -> Option<Wrapped> {
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
pub fn wrap(bound: &Bound, version: StatsVersion) -> Option<(Wrapped, (i32, Option<String>))> {
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
