//! The hashes that place keys and name things: which shard, which bucket, which key of the metadata table.
//!
//! All follow Java: a string's hash runs over UTF-16 units and wraps at 32 bits, and a remainder keeps its sign.
//! Format: docs/format.md, "Metadata table" and "Indexes".

use crate::error::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Digest;
use twox_hash::XxHash64;

/// Seed of the XXH64 of names of columns and partitions.
const NAME_SEED: u64 = 0xffff_ffff_daba_daba;
/// Between the fields of a record key of several fields.
const FIELDS_SEPARATOR: char = ',';
/// Between a field's name and its value in such a key.
const VALUE_SEPARATOR: char = ':';

/// `String.hashCode()`.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The file group of a metadata partition that holds a key, of `groups` in the order of their ids. 0 of none.
pub fn shard(key: &str, groups: u32) -> u32 {
    // Math.abs of the least number is itself, and the remainder of a negative number is negative.
    let hash = i64::from(java_hash(key).wrapping_abs());
    match i64::from(groups) {
        0 => 0,
        groups => (hash % groups).unsigned_abs() as u32,
    }
}

/// The bucket of a record key, of `buckets`; `fields` are the fields that the bucket index hashes.
///
/// A key without a colon is hashed whole. Any other is read as `field:value,…` even where it is the value of a single field,
/// and a field that is not found counts as null: so do the writers that share the table, and all must agree. A key that Hudi
/// fails over (a part without a value, a field twice) is `Invalid`.
pub fn bucket(key: &str, fields: &[impl AsRef<str>], buckets: u32) -> Result<u32> {
    let hash = match key.contains(VALUE_SEPARATOR) {
        false => list_hash([Some(key)]),
        true => {
            let pairs = key_pairs(key)?;
            let value = |field: &str| pairs.iter().find(|(name, _)| *name == field).map(|(_, value)| *value);
            list_hash(fields.iter().map(|f| value(f.as_ref())))
        }
    };
    match buckets {
        0 => Err(Error::invalid("a bucket index of no buckets")),
        buckets => Ok((hash & i32::MAX) as u32 % buckets),
    }
}

/// `List.hashCode()` of strings, `None` for null.
fn list_hash<'t>(items: impl IntoIterator<Item = Option<&'t str>>) -> i32 {
    items.into_iter().fold(1i32, |hash, item| hash.wrapping_mul(31).wrapping_add(item.map_or(0, java_hash)))
}

fn key_pairs(key: &str) -> Result<Vec<(&str, &str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    // Java's split drops empty parts at the end.
    for part in key.trim_end_matches(FIELDS_SEPARATOR).split(FIELDS_SEPARATOR) {
        let mut texts = part.trim_end_matches(VALUE_SEPARATOR).split(VALUE_SEPARATOR);
        let (Some(name), Some(value)) = (texts.next(), texts.next()) else {
            return Err(odd_key(key, "a part of it has no value"));
        };
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(odd_key(key, "a field is in it twice"));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn odd_key(key: &str, why: &str) -> Error {
    Error::invalid(format!("record key {key:?} has no bucket: {why}"))
        .with_hint("in a table with a bucket index a colon stands between field and value, and Hudi itself fails here")
}

/// The text that stands for the name of a column or a partition in keys of the metadata table: 12 characters.
pub fn name_id(name: &str) -> String {
    STANDARD.encode(XxHash64::oneshot(NAME_SEED, name.as_bytes()).to_be_bytes())
}

/// The text that stands for a file's name in keys of the metadata table: 24 characters.
pub fn file_id(name: &str) -> String {
    STANDARD.encode(md5::Md5::digest(name.as_bytes()))
}

/// Murmur2 as Hadoop has it: bytes are signed, and those after the last word count from the end.
pub fn murmur2(bytes: &[u8], seed: i32) -> i32 {
    const M: i32 = 0x5bd1_e995;
    let signed = |byte: &u8| i32::from(*byte as i8);
    let mut hash = seed ^ bytes.len() as i32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = i32::from_le_bytes(*word).wrapping_mul(M);
        k ^= (k as u32 >> 24) as i32;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        // Unlike the words, and unlike Murmur2 elsewhere: the last byte is the lowest.
        for (place, byte) in tail.iter().rev().enumerate() {
            hash ^= signed(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= (hash as u32 >> 13) as i32;
    hash = hash.wrapping_mul(M);
    hash ^ (hash as u32 >> 15) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MURMURS: [(&str, i32); 6] = [
        ("region=apac", -663596107),
        ("region=eu", 1980327402),
        ("region=us", -2066523268),
        ("p1", -120006672),
        ("é", -384040333),
        ("", 0),
    ];

    #[test]
    fn shards_of_keys() {
        // Hashed keys of a record index and of secondary indexes that Java wrote.
        for (key, shard_of_10) in [
            ("txn_id:TXN-004,account_id:ACC-C", 3),
            ("txn_id:TXN-006,account_id:ACC-C", 3),
            ("txn_id:TXN-003,account_id:ACC-A", 4),
            ("Uber$", 4),
            ("Spotify$", 0),
            ("19737$", 3),
            ("\0$", 6),
            ("rider-J$c8abbe79-8d89-47ea-b4ce-4d224bae5bfa", 0),
            ("abc", 4),
            ("polygenelubricants", 8),
            ("key-000001", 5),
            ("鍵", 9),
            ("😀", 9),
            ("", 0),
        ] {
            assert_eq!(shard(key, 10), shard_of_10, "{key:?}");
        }
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!((shard("abc", 1), shard("abc", 0)), (0, 0));
    }

    #[test]
    fn buckets_of_keys() {
        let id = ["id"];
        assert_eq!(bucket("abc", &id, 8).unwrap(), 1);
        assert_eq!(bucket("key-000001", &id, 8).unwrap(), 6);
        // All keys with a colon that name no field of the index meet in the bucket of a null.
        assert_eq!(bucket("urn:x:1", &id, 8).unwrap(), 31 % 8);
        assert_eq!(bucket("urn:y:2", &id, 8).unwrap(), 31 % 8);
        let of = |values: [&str; 2]| (list_hash(values.map(Some)) & i32::MAX) as u32 % 100;
        assert_eq!(bucket("a:1,b:2", &["b", "a"], 100).unwrap(), of(["2", "1"]));
        assert_eq!(bucket("a:1,b:10:30", &["a", "b"], 100).unwrap(), of(["1", "10"]));
        for odd in ["a:", "a:1,b", "a:1,a:2"] {
            assert_eq!(bucket(odd, &["a"], 8).unwrap_err().kind(), crate::ErrorKind::Invalid, "{odd:?}");
        }
        assert!(bucket("abc", &id, 0).is_err());
    }

    #[test]
    fn murmur_of_keys_with_a_tail() {
        // Computed by the definition, and found in filters over the partitions of tables that Java wrote.
        assert_eq!(MURMURS.map(|(key, _)| murmur2(key.as_bytes(), 0)), MURMURS.map(|(_, hash)| hash));
    }

    #[test]
    fn ids_of_names() {
        for (name, id) in [
            ("_hoodie_commit_time", "JBBzUToHtLc="),
            ("region=us", "431THTTwO5Q="),
            ("city=sao_paulo", "6Hj+sBy+gvM="),
            (".", "FXThHwelITM="),
            ("fee_amount", "5RNSbpYG6oU="),
        ] {
            assert_eq!(name_id(name), id);
        }
        let name = "39cc539f-61e9-4996-8096-4d89715c4142-0_1-27-53_20260307162628304.parquet";
        assert_eq!(file_id(name), "TOHqhvW7HwIogcEGnEpzQg==");
    }
}
