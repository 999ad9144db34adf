//! What Hudi keeps in the footer of a base file: the filter over its keys, their range, and its schema.
//! Format: docs/format.md, "Base files".

use super::BaseOptions;
use crate::error::Result;
use crate::format::bloom::{BloomFilter, BloomKind};
use arrow::array::StringArray;
use parquet::file::metadata::KeyValue;
use std::cmp::Ordering;

pub(super) const BLOOM: &str = "org.apache.hudi.bloomfilter";
/// The filter's key before Hudi was Apache's.
pub(super) const BLOOM_OLD: &str = "com.uber.hoodie.bloomfilter";
pub(super) const BLOOM_TYPE: &str = "hoodie_bloom_filter_type_code";
pub(super) const KEY_MIN: &str = "hoodie_min_record_key";
pub(super) const KEY_MAX: &str = "hoodie_max_record_key";
const AVRO_SCHEMA: &str = "parquet.avro.schema";
const MODEL: &str = "writer.model.name";
/// How many times more keys than a filter was made for it takes before it is taken to have every key: it tells next to nothing
/// by then, and adding a key costs thirty hashes.
const OVERFULL: u64 = 10;

/// The filter and the range of the keys of a file.
pub(super) struct KeySummary {
    bloom: Option<BloomFilter>,
    added: u64,
    is_full: bool,
    range: Option<(String, String)>,
}

impl KeySummary {
    /// Of a file without keys.
    pub fn empty(options: &BaseOptions) -> Result<KeySummary> {
        Ok(KeySummary { bloom: options.new_bloom()?, added: 0, is_full: false, range: None })
    }

    /// Of a file that is known already, by its footer: `held` keys are in its filter. `None` where the footer lacks what
    /// the options want, or where it cannot be understood: then all keys must be added.
    pub fn of_footer(entries: &[KeyValue], held: u64, options: &BaseOptions) -> Option<KeySummary> {
        let entry = |key: &str| entries.iter().find(|e| e.key == key).and_then(|e| e.value.as_deref());
        let range = Some((entry(KEY_MIN)?.to_owned(), entry(KEY_MAX)?.to_owned()));
        let bloom = match (options.bloom, entry(BLOOM).or_else(|| entry(BLOOM_OLD))) {
            (None, _) => None,
            (Some(_), text) => {
                let kind = BloomKind::from_code(entry(BLOOM_TYPE).unwrap_or(BloomKind::Simple.code()))?;
                Some(BloomFilter::parse_text(kind, text?.as_bytes()).ok()?)
            }
        };
        Some(KeySummary { bloom, added: held, is_full: false, range })
    }

    /// Adds keys.
    pub fn add(&mut self, keys: &StringArray) {
        for key in keys.iter().flatten() {
            self.add_to_filter(key);
        }
        // Arrow finds the extremes of bytes fast; Java orders text otherwise only where there are characters beyond 16 bits.
        let (min, max) = if keys.value_data().iter().any(|b| *b >= 0xf0) {
            let min = keys.iter().flatten().min_by(|a, b| java_order(a, b));
            (min, keys.iter().flatten().max_by(|a, b| java_order(a, b)))
        } else {
            (arrow::compute::min_string(keys), arrow::compute::max_string(keys))
        };
        if let (Some(min), Some(max)) = (min, max) {
            self.widen(min, max);
        }
    }

    fn add_to_filter(&mut self, key: &str) {
        let Some(bloom) = self.bloom.as_mut().filter(|_| !self.is_full) else { return };
        self.added += 1;
        match bloom.capacity() {
            Some(capacity) if self.added > capacity.saturating_mul(OVERFULL) => {
                bloom.fill();
                self.is_full = true;
            }
            _ => bloom.add(key),
        }
    }

    fn widen(&mut self, min: &str, max: &str) {
        match &mut self.range {
            None => self.range = Some((min.to_owned(), max.to_owned())),
            Some((low, high)) => {
                if java_order(min, low).is_lt() {
                    min.clone_into(low);
                }
                if java_order(max, high).is_gt() {
                    max.clone_into(high);
                }
            }
        }
    }

    /// The entries of the footer, the schema's among them.
    pub fn entries(&self, avro_schema: &str) -> Vec<KeyValue> {
        let mut entries = Vec::new();
        let mut put = |key: &str, value: String| entries.push(KeyValue::new(key.to_owned(), value));
        if let Some(bloom) = &self.bloom {
            put(BLOOM, bloom.to_text());
            put(BLOOM_TYPE, bloom.kind().code().to_owned());
        }
        if let Some((min, max)) = &self.range {
            put(KEY_MIN, min.clone());
            put(KEY_MAX, max.clone());
        }
        put(AVRO_SCHEMA, avro_schema.to_owned());
        put(MODEL, "avro".to_owned());
        entries
    }
}

/// `String.compareTo`: by UTF-16 units, which differs from the order of bytes between characters beyond 16 bits and the last
/// ones within.
pub(super) fn java_order(a: &str, b: &str) -> Ordering {
    let different = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    match different {
        Some((a, b)) if (a >= 0xf0) != (b >= 0xf0) && a.min(b) >= 0xee => b.cmp(&a),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_overfull_filter_has_every_key() {
        let options = BaseOptions {
            bloom: Some(super::super::options::BloomOptions {
                kind: crate::format::bloom::BloomKind::Dynamic,
                entries: 10,
                fpp: 0.01,
                max_entries: 20,
            }),
            ..BaseOptions::default()
        };
        let mut summary = KeySummary::empty(&options).unwrap();
        let keys = |range: std::ops::Range<u32>| StringArray::from_iter_values(range.map(|n| n.to_string()));
        summary.add(&keys(0..200));
        assert!(!summary.is_full);
        summary.add(&keys(200..1000));
        assert!(summary.is_full && summary.bloom.as_ref().unwrap().might_contain("never added"));
        let text = summary.bloom.as_ref().unwrap().to_text();
        let again = BloomFilter::parse_text(crate::format::bloom::BloomKind::Dynamic, text.as_bytes()).unwrap();
        assert!(again.might_contain("17"));
        assert_eq!(summary.range, Some(("0".into(), "999".into())));
    }

    proptest! {
        #[test]
        fn order_is_javas(a in "[a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}", b in "[a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}") {
            prop_assert_eq!(java_order(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
        }
    }
}
