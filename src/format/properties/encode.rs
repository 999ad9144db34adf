//! Writing properties in Java's syntax, and the checksum of a table's.
//!
//! Bytes are ASCII: everything above `0x7e` is escaped. A reader that believes the file to be ISO-8859-1, UTF-8 or anything
//! else between reads the same.

use super::Properties;
use std::fmt::Write;

/// The key of the checksum.
pub const CHECKSUM: &str = "hoodie.table.checksum";

impl Properties {
    /// Sets a key; a new one comes last.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        match self.pairs.iter_mut().find(|(k, _)| k == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key.to_owned(), value)),
        }
    }

    /// Takes a key out; its value, if it was there.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let place = self.pairs.iter().position(|(k, _)| k == key)?;
        Some(self.pairs.remove(place).1)
    }

    /// Puts the checksum of the table's names, and puts it last: a file that was cut off lacks it.
    pub fn seal(&mut self) {
        self.remove(CHECKSUM);
        let sum = self.table_checksum();
        self.set(CHECKSUM, sum.to_string());
    }

    /// CRC-32 of `<database>.<table>`; the database of a table without one is empty.
    pub fn table_checksum(&self) -> u32 {
        let of = |key| self.get(key).unwrap_or_default();
        crc32fast::hash(format!("{}.{}", of("hoodie.database.name"), of("hoodie.table.name")).as_bytes())
    }

    /// The bytes of a properties file that begins with these comments. All keys are written, known or not.
    pub fn encode(&self, comments: &[&str]) -> Vec<u8> {
        let mut out = String::new();
        for comment in comments {
            out.push('#');
            // A comment ends with its line.
            comment.chars().filter(|c| !c.is_control()).for_each(|c| push_char(&mut out, c));
            out.push('\n');
        }
        for (key, value) in &self.pairs {
            push_escaped(&mut out, key, true);
            out.push('=');
            push_escaped(&mut out, value, false);
            out.push('\n');
        }
        out.into_bytes()
    }
}

impl FromIterator<(String, String)> for Properties {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let mut properties = Properties::default();
        pairs.into_iter().for_each(|(key, value)| properties.set(&key, value));
        properties
    }
}

/// Blanks end a key wherever they stand; of a value only those at its start would be lost.
fn push_escaped(out: &mut String, text: &str, is_key: bool) {
    for (place, c) in text.chars().enumerate() {
        match c {
            ' ' if is_key || place == 0 => out.push_str("\\ "),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x0c' => out.push_str("\\f"),
            '=' | ':' | '#' | '!' | '\\' => out.extend(['\\', c]),
            c => push_char(out, c),
        }
    }
}

fn push_char(out: &mut String, c: char) {
    if (' '..='~').contains(&c) {
        return out.push(c);
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\u{unit:04X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn java_escapes() {
        let mut properties = Properties::default();
        properties.set("a b", " c d ");
        properties.set("schema", r#"{"type":"record"} = #! \ "#);
        properties.set("é", "😀\t\n\r\x0c\x01");
        let text = String::from_utf8(properties.encode(&["two\nlines", "ü"])).unwrap();
        let lines = [
            "#twolines",
            "#\\u00FC",
            r"a\ b=\ c d ",
            r#"schema={"type"\:"record"} \= \#\! \\ "#,
            r"\u00E9=\uD83D\uDE00\t\n\r\f\u0001",
        ];
        assert_eq!(text, lines.join("\n") + "\n");
        assert_eq!(Properties::parse(text.as_bytes()), properties);
    }

    #[test]
    fn checksums_that_java_wrote() {
        for (database, table, sum) in [
            (Some("default"), "v8_trips_8i3u1d", 1_197_752_875),
            (Some("default"), "v6_nonpartitioned_rollback", 1_120_353_670),
            (None, "v8_trips_8i3u1d_metadata", 380_169_000),
        ] {
            let mut properties = Properties::default();
            properties.set(CHECKSUM, "1");
            properties.set("hoodie.table.name", table);
            database.iter().for_each(|d| properties.set("hoodie.database.name", *d));
            properties.seal();
            assert_eq!(properties.iter().last(), Some((CHECKSUM, sum.to_string().as_str())));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(pairs in proptest::collection::vec((".+", ".*"), 0..10)) {
            let properties: Properties = pairs.into_iter().collect();
            prop_assert_eq!(Properties::parse(&properties.encode(&["Properties saved"])), properties);
        }
    }
}
