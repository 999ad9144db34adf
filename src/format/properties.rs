//! Java properties, the syntax of `hoodie.properties` and `.hoodie_partition_metadata`.
//!
//! [`Properties`] keeps every key in the order of the file, known or not, and writes them. [`TableConfig`] reads the typed ones.
//! Bytes are ISO-8859-1; `\uXXXX` are UTF-16 units. Format: docs/format.md, "hoodie.properties".

mod encode;
mod table;

pub use encode::CHECKSUM;
pub use table::{BaseFormat, TableConfig, TableType, Version};

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

/// Key-value pairs in the order of their file; of a repeated key the last value counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pairs: Vec<(String, String)>,
}

impl Properties {
    /// Reads the Java syntax. Every byte sequence has a meaning, so this cannot fail.
    pub fn parse(bytes: &[u8]) -> Properties {
        // ISO-8859-1: every byte is the code point of its value.
        let text: String = bytes.iter().map(|b| *b as char).collect();
        let mut properties = Properties::default();
        // Where each key is: a file of millions of keys must not take a look at all of them for each.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut chars = text.chars().peekable();
        while chars.peek().is_some() {
            let Some((key, value)) = parse_line(&mut chars) else { continue };
            match places.get(&key).and_then(|at| properties.pairs.get_mut(*at)) {
                Some(pair) => pair.1 = value,
                None => {
                    places.insert(key.clone(), properties.pairs.len());
                    properties.pairs.push((key, value));
                }
            }
        }
        properties
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All pairs, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// One logical line; `None` for a blank line or a comment.
fn parse_line(chars: &mut Peekable<Chars<'_>>) -> Option<(String, String)> {
    skip_blanks(chars);
    match chars.peek() {
        Some('#' | '!') => {
            // A comment ends with its own line, whatever backslashes it holds.
            for c in chars.by_ref() {
                if c == '\n' || c == '\r' {
                    break;
                }
            }
            return None;
        }
        Some('\n' | '\r') => {
            chars.next();
            return None;
        }
        None => return None,
        Some(_) => {}
    }
    let key = parse_text(chars, |c| matches!(c, '=' | ':') || is_blank(c));
    skip_blanks_joined(chars);
    if matches!(chars.peek(), Some('=' | ':')) {
        chars.next();
        skip_blanks_joined(chars);
    }
    let value = parse_text(chars, |_| false);
    chars.next();
    Some((key, value))
}

/// Text up to the end of the logical line or an unescaped character for which `ends` holds; that character stays unread.
fn parse_text(chars: &mut Peekable<Chars<'_>>, ends: fn(char) -> bool) -> String {
    let mut units: Vec<u16> = Vec::new();
    while let Some(&c) = chars.peek() {
        if c == '\n' || c == '\r' || ends(c) {
            break;
        }
        chars.next();
        if c == '\\' { push_escaped(chars, &mut units) } else { push(&mut units, c) }
    }
    String::from_utf16_lossy(&units)
}

/// Reads what follows a backslash.
fn push_escaped(chars: &mut Peekable<Chars<'_>>, units: &mut Vec<u16>) {
    match chars.next() {
        Some('t') => push(units, '\t'),
        Some('n') => push(units, '\n'),
        Some('r') => push(units, '\r'),
        Some('f') => push(units, '\x0c'),
        Some('u') => units.push(parse_unit(chars)),
        Some(c @ ('\n' | '\r')) => {
            skip_line_end(chars, c);
            skip_blanks(chars);
        }
        Some(c) => push(units, c),
        None => {}
    }
}

/// Up to four hexadecimal digits. Java refuses fewer; a damaged escape here yields what its digits say.
fn parse_unit(chars: &mut Peekable<Chars<'_>>) -> u16 {
    let mut unit = 0;
    for _ in 0..4 {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(16)) else { break };
        chars.next();
        unit = unit << 4 | digit as u16;
    }
    unit
}

fn push(units: &mut Vec<u16>, c: char) {
    units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn skip_blanks(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| is_blank(*c)).is_some() {}
}

/// Skips blanks between key and value, across joined lines.
fn skip_blanks_joined(chars: &mut Peekable<Chars<'_>>) {
    loop {
        skip_blanks(chars);
        let mut ahead = chars.clone();
        match (ahead.next(), ahead.next()) {
            (Some('\\'), Some(end @ ('\n' | '\r'))) => {
                chars.next();
                chars.next();
                skip_line_end(chars, end);
            }
            _ => return,
        }
    }
}

/// Skips the second half of a CRLF.
fn skip_line_end(chars: &mut Peekable<Chars<'_>>, first: char) {
    if first == '\r' {
        chars.next_if_eq(&'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        Properties::parse(text.as_bytes()).pairs
    }

    #[test]
    fn java_syntax() {
        let cases = [
            ("a=b", "a", "b"),
            ("a:b", "a", "b"),
            ("a b", "a", "b"),
            ("  a =  b ", "a", "b "),
            ("a==b", "a", "=b"),
            ("a", "a", ""),
            ("a\\ b\\=c=d", "a b=c", "d"),
            ("a=\\u00e9\\uD83D\\uDE00", "a", "é😀"),
            ("a=one\\\n   two", "a", "onetwo"),
            ("a=one\\\r\n two", "a", "onetwo"),
            ("a\\\n =b", "a", "b"),
            ("a = \\\n b", "a", "b"),
            ("a=x\\\\", "a", "x\\"),
            ("a={\"t\"\\:\"r\"}", "a", "{\"t\":\"r\"}"),
            ("a=\\t\\n\\r\\f\\q", "a", "\t\n\r\x0cq"),
        ];
        for (text, key, value) in cases {
            assert_eq!(pairs(text), [(key.to_owned(), value.to_owned())], "{text:?}");
        }
        assert_eq!(pairs("#c\\\na=1\n!x\r\rb=2\r\n\n \t\na=3"), [("a".into(), "3".into()), ("b".into(), "2".into())]);
        assert_eq!(pairs(""), []);
        assert_eq!(Properties::parse(b"a=\xe9").get("a"), Some("é"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_properties(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Properties::parse(&bytes);
        }
    }
}
