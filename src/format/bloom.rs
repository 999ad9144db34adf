//! Bloom filters over record keys, as they lie in Parquet footers, HFiles and the metadata table.
//!
//! ```text
//! SIMPLE:      i32 -1 | i32 k | u8 hash (1: Murmur2) | i32 m | m bits, bit i in byte i/8, low bits first
//! DYNAMIC_V0:  i32 -1 | i32 k | u8 hash | i32 m | i32 entries a row | i32 entries in the last row | i32 rows | rows, each as SIMPLE
//! ```
//!
//! The text form, which is what is stored, is Base64 of that. Numbers are big-endian. A filter never denies a key that was
//! added; its parameters come from the data when it is read. Format: docs/format.md, "Bloom filters".

mod bits;

use crate::error::{Error, Result};
use crate::format::input::Input;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bits::{Bits, Shape};

/// `hoodie.index.bloom.num_entries`.
pub const ENTRIES_DEFAULT: u32 = 60_000;
/// `hoodie.index.bloom.fpp`: the share of wrong positives.
pub const FPP_DEFAULT: f64 = 1e-9;
/// `hoodie.bloom.index.filter.dynamic.max.entries`.
pub const MAX_ENTRIES_DEFAULT: u32 = 100_000;

/// How a filter grows, and how it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BloomKind {
    /// One row of bits, made for a number of keys.
    Simple,
    /// A further row each time that a row is full, up to a limit.
    #[default]
    Dynamic,
}

impl BloomKind {
    /// The type code that stands beside a filter.
    pub fn code(self) -> &'static str {
        match self {
            BloomKind::Simple => "SIMPLE",
            BloomKind::Dynamic => "DYNAMIC_V0",
        }
    }

    /// The kind of a type code, in any case.
    pub fn from_code(code: &str) -> Option<BloomKind> {
        [BloomKind::Simple, BloomKind::Dynamic].into_iter().find(|k| k.code().eq_ignore_ascii_case(code))
    }
}

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    shape: Shape,
    rows: Vec<Bits>,
    growth: Option<Growth>,
}

/// What a dynamic filter keeps of its filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Growth {
    /// Keys that a row is made for.
    row_entries: u32,
    /// Keys in the last row.
    in_last_row: u32,
    /// Keys that rows are added for.
    max_entries: u32,
    /// The row that takes the next key once there are as many rows as may be.
    next_full: Option<usize>,
}

impl BloomFilter {
    /// An empty filter for `entries` keys (a dynamic one: for that many in each row) with `fpp` wrong positives.
    pub fn new(kind: BloomKind, entries: u32, fpp: f64, max_entries: u32) -> Result<BloomFilter> {
        let shape = Shape::for_entries(entries, fpp)?;
        let growth = Growth { row_entries: entries, in_last_row: 0, max_entries, next_full: None };
        Ok(BloomFilter { shape, rows: vec![Bits::new(shape)], growth: (kind == BloomKind::Dynamic).then_some(growth) })
    }

    /// A filter as Hudi makes it by default.
    pub fn with_defaults() -> Result<BloomFilter> {
        Self::new(BloomKind::default(), ENTRIES_DEFAULT, FPP_DEFAULT, MAX_ENTRIES_DEFAULT)
    }

    /// How it grows.
    pub fn kind(&self) -> BloomKind {
        if self.growth.is_some() { BloomKind::Dynamic } else { BloomKind::Simple }
    }

    /// Adds a key.
    pub fn add(&mut self, key: &str) {
        let place = self.row_for_next();
        if place == self.rows.len() {
            self.rows.push(Bits::new(self.shape));
        }
        if let Some(row) = self.rows.get_mut(place) {
            row.add(key.as_bytes());
        }
    }

    /// Makes the filter one that has every key, of all the rows that it may have: what adding very many keys comes to.
    pub fn fill(&mut self) {
        if let Some(growth) = &mut self.growth {
            let rows = u64::from(growth.max_entries).div_ceil(u64::from(growth.row_entries.max(1))).max(1);
            growth.in_last_row = growth.row_entries;
            growth.next_full = Some(0);
            self.rows.resize_with((rows as usize).max(self.rows.len()), || Bits::new(self.shape));
        }
        self.rows.iter_mut().for_each(Bits::fill);
    }

    /// Keys that the filter was made for: with more, it tells less and less.
    pub fn capacity(&self) -> Option<u64> {
        self.growth.map(|g| u64::from(g.max_entries.max(g.row_entries)))
    }

    /// False if the key was certainly not added.
    pub fn might_contain(&self, key: &str) -> bool {
        self.rows.iter().any(|row| row.contains(key.as_bytes()))
    }

    /// Which row takes the next key; one past the last asks for a new one. Counts the key.
    fn row_for_next(&mut self) -> usize {
        let rows = self.rows.len();
        let Some(growth) = &mut self.growth else { return 0 };
        if let Some(next) = &mut growth.next_full {
            let place = *next % rows.max(1);
            *next += 1;
            return place;
        }
        growth.in_last_row = growth.in_last_row.saturating_add(1);
        if growth.in_last_row <= growth.row_entries {
            return rows.saturating_sub(1);
        }
        if (rows as u64).saturating_mul(u64::from(growth.row_entries)) < u64::from(growth.max_entries) {
            growth.in_last_row = 1;
            return rows;
        }
        growth.next_full = Some(0);
        0
    }

    /// The bytes of its form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(growth) = &self.growth {
            self.shape.write(&mut out);
            for number in [growth.row_entries, growth.in_last_row, self.rows.len() as u32] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        for row in &self.rows {
            row.write(&mut out);
        }
        out
    }

    /// The text that is stored: Base64 of [`BloomFilter::to_bytes`].
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.to_bytes())
    }

    /// Reads the stored text of a filter of that kind.
    pub fn parse_text(kind: BloomKind, text: &[u8]) -> Result<BloomFilter> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|e| Error::corrupt(format!("bloom filter is not Base64: {e}")).with_source(e))?;
        Self::parse(kind, &bytes).map_err(|e| e.context("bloom filter"))
    }

    /// Reads the bytes of a filter of that kind.
    pub fn parse(kind: BloomKind, bytes: &[u8]) -> Result<BloomFilter> {
        let mut input = Input::new(bytes);
        if kind == BloomKind::Simple {
            let row = Bits::read(&mut input)?;
            return Ok(BloomFilter { shape: row.shape(), rows: vec![row], growth: None });
        }
        let shape = Shape::read(&mut input)?;
        let [row_entries, in_last_row, count] = [input.i32()?, input.i32()?, input.i32()?].map(i32::unsigned_abs);
        let mut rows = Vec::new();
        for _ in 0..count {
            let row = Bits::read(&mut input)?;
            if row.shape() != shape {
                return Err(Error::corrupt("a row of another shape than the filter's"));
            }
            rows.push(row);
        }
        // How far it may grow is not written; a filter that was read is not filled further by anyone.
        let growth = Growth { row_entries, in_last_row, max_entries: MAX_ENTRIES_DEFAULT, next_full: None };
        Ok(BloomFilter { shape, rows, growth: Some(growth) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shapes_of_hudis_defaults() {
        let filter = BloomFilter::with_defaults().unwrap();
        let bytes = filter.to_bytes();
        assert_eq!((bytes.len(), filter.to_text().len()), (323_534, 431_380));
        let mut head = vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x1e, 1, 0, 0x27, 0x7d, 0x3e];
        head.extend([0, 0, 0xea, 0x60, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x1e, 1]);
        assert_eq!(bytes[..head.len()], head);
        let simple = BloomFilter::new(BloomKind::Simple, 10_000, 1e-9, 0).unwrap().to_bytes();
        assert_eq!(simple.len(), 13 + 431_328 / 8);
    }

    #[test]
    fn rows_are_added_up_to_the_limit_and_then_shared() {
        let mut filter = BloomFilter::new(BloomKind::Dynamic, 10, 0.01, 25).unwrap();
        let keys: Vec<String> = (0..100).map(|n| format!("key-{n}")).collect();
        let rows: Vec<usize> = keys
            .iter()
            .map(|key| {
                filter.add(key);
                filter.rows.len()
            })
            .collect();
        assert_eq!((rows[9], rows[10], rows[20], rows[99]), (1, 2, 3, 3));
        assert!(keys.iter().all(|k| filter.might_contain(k)));
    }

    #[test]
    fn damaged_filters_are_refused() {
        let good = BloomFilter::new(BloomKind::Dynamic, 10, 0.01, 25).unwrap().to_bytes();
        for (at, byte) in [(0, 0), (8, 0), (8, 9), (9, 0xff), (21, 0xff)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(BloomFilter::parse(BloomKind::Dynamic, &bad).is_err(), "byte {at} as {byte}");
        }
        assert!(BloomFilter::parse(BloomKind::Dynamic, &good[..good.len() - 1]).is_err());
        assert!(BloomFilter::parse_text(BloomKind::Simple, b"!").is_err());
    }

    proptest! {
        #[test]
        fn what_was_added_is_found_again(keys in proptest::collection::vec(".*", 0..50), simple in any::<bool>()) {
            let kind = if simple { BloomKind::Simple } else { BloomKind::Dynamic };
            let mut filter = BloomFilter::new(kind, 20, 1e-9, 40).unwrap();
            keys.iter().for_each(|key| filter.add(key));
            let again = BloomFilter::parse_text(kind, filter.to_text().as_bytes()).unwrap();
            prop_assert_eq!(again.to_bytes(), filter.to_bytes());
            prop_assert!(keys.iter().all(|key| again.might_contain(key)));
            if keys.len() < 20 {
                prop_assert!(!again.might_contain("a key that nobody added"));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..100), simple in any::<bool>()) {
            let kind = if simple { BloomKind::Simple } else { BloomKind::Dynamic };
            let _ = BloomFilter::parse(kind, &bytes);
            let _ = BloomFilter::parse(kind, &[&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1][..], &bytes].concat());
        }
    }
}
