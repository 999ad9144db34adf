//! Partition paths: their escaping, and the file that marks a folder as a partition.
//!
//! A partition's path is stored as it stands in the file system, escaped values included; nothing here joins or splits values.
//! Format: docs/format.md, "Partitions".

use super::instant::InstantTime;
use super::properties::Properties;
use std::borrow::Cow;

/// What stands for a null or empty value since 0.12.
pub const DEFAULT_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// What `.hoodie_partition_metadata` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The instant that made the partition.
    pub created: Option<InstantTime>,
    /// Number of folders between the table's base and the partition.
    pub depth: Option<u32>,
}

impl PartitionMetadata {
    /// Reads the text form. Both values only describe the folder, so a damaged one is `None` and the folder still a partition.
    pub fn parse(bytes: &[u8]) -> PartitionMetadata {
        let properties = Properties::parse(bytes);
        PartitionMetadata {
            created: properties.get("commitTime").and_then(InstantTime::parse),
            depth: properties.get("partitionDepth").and_then(|d| d.parse().ok()),
        }
    }

    /// What marks the folder of `partition` (its path; empty in a table without partitions), made by the instant `created`.
    pub fn of(partition: &str, created: InstantTime) -> PartitionMetadata {
        let depth = partition.split('/').filter(|component| !component.is_empty()).count();
        PartitionMetadata { created: Some(created), depth: Some(depth as u32) }
    }

    /// The bytes of `.hoodie_partition_metadata`.
    pub fn encode(&self) -> Vec<u8> {
        let mut properties = Properties::default();
        self.created.iter().for_each(|created| properties.set("commitTime", created.as_str()));
        self.depth.iter().for_each(|depth| properties.set("partitionDepth", depth.to_string()));
        properties.encode(&["partition metadata"])
    }
}

fn needs_escape(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '\x7f' | '{' | '[' | ']' | '^'
    )
}

/// Hive's escaping of one value.
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(needs_escape) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        if needs_escape(c) {
            out.push_str(&format!("%{:02X}", c as u32));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The reverse of [`escape`]: each `%XX` is the character of that code (not a byte of UTF-8), as in Hudi; anything else stays.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('%') {
        out.push_str(head);
        let code = tail.get(..2).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(code) => {
                out.push(char::from(code));
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push('%');
                rest = tail;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_metadata_written_and_read() {
        let instant = InstantTime::parse("20260403184238571").unwrap();
        let written = PartitionMetadata::of("2024/02/01/08", instant);
        let text = "#partition metadata\ncommitTime=20260403184238571\npartitionDepth=4\n";
        assert_eq!(written.encode(), text.as_bytes());
        assert_eq!(PartitionMetadata::parse(&written.encode()), written);
        assert_eq!(PartitionMetadata::of("", instant).depth, Some(0));
    }
    use proptest::prelude::*;

    #[test]
    fn escaping() {
        for (plain, escaped) in [
            ("us", "us"),
            ("2024/01/02", "2024%2F01%2F02"),
            ("a=b:c", "a%3Db%3Ac"),
            ("100%", "100%25"),
            ("sp ace é", "sp ace é"),
            ("\n\u{7f}", "%0A%7F"),
            ("}", "}"),
        ] {
            assert_eq!(escape(plain), escaped);
            assert_eq!(unescape(escaped), plain);
        }
        for (text, plain) in
            [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%2fx", "/x"), ("%%41", "%A"), ("%E9", "é"), ("%é", "%é")]
        {
            assert_eq!(unescape(text), plain);
        }
    }

    #[test]
    fn metadata_file() {
        let text =
            "#partition metadata\n#Fri Apr 03 18:42:40 UTC 2026\ncommitTime=20260403184238571\npartitionDepth=0\n";
        let metadata = PartitionMetadata::parse(text.as_bytes());
        assert_eq!(metadata.created, InstantTime::parse("20260403184238571"));
        assert_eq!(metadata.depth, Some(0));
        assert_eq!(PartitionMetadata::parse(b""), PartitionMetadata { created: None, depth: None });
    }

    proptest! {
        #[test]
        fn escapes_round_trip(value in "\\PC{0,30}") {
            let escaped = escape(&value);
            prop_assert_eq!(unescape(&escaped), value.as_str());
        }
    }
}
