//! Java's date patterns, as Joda-Time reads them: the letters that partition paths are made of.

use super::calendar::DateTime;
use crate::error::{Error, Result};
use std::fmt::Write as _;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(String),
    /// A letter and how often it stands.
    Field(char, usize),
}

impl Pattern {
    /// `Unsupported` names letters that are not known.
    pub fn parse(text: &str) -> Result<Pattern> {
        let mut tokens = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\'' => tokens.push(Token::Literal(quoted(&mut chars))),
                'y' | 'Y' | 'u' | 'M' | 'd' | 'D' | 'H' | 'h' | 'K' | 'k' | 'm' | 's' | 'S' | 'a' | 'Z' => {
                    let mut count = 1;
                    while chars.next_if_eq(&c).is_some() {
                        count += 1;
                    }
                    tokens.push(Token::Field(c, count));
                }
                c if c.is_ascii_alphabetic() => {
                    return Err(Error::unsupported(format!("letter {c:?} in the date pattern {text:?}")));
                }
                c => tokens.push(Token::Literal(c.to_string())),
            }
        }
        Ok(Pattern(tokens))
    }

    /// The text of a date; `offset_ms` is that of the clock that shows it.
    pub fn format(&self, date: &DateTime, offset_ms: i64) -> String {
        let mut out = String::new();
        for token in &self.0 {
            match token {
                Token::Literal(text) => out.push_str(text),
                Token::Field(letter, width) => push_field(*letter, *width, date, offset_ms, &mut out),
            }
        }
        out
    }

    /// Reads a text: the date, and the clock's offset if the text tells it. `None` if the text is not of this pattern.
    pub fn read(&self, text: &str) -> Option<(DateTime, Option<i64>)> {
        let mut date = DateTime { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0, milli: 0 };
        let (mut offset, mut afternoon, mut half_day) = (None, None, None);
        let mut rest = text;
        for (index, token) in self.0.iter().enumerate() {
            let (letter, width) = match token {
                Token::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_str())?;
                    continue;
                }
                Token::Field(letter, width) => (*letter, *width),
            };
            // A number right before another takes only its own digits.
            let adjacent = matches!(self.0.get(index + 1), Some(Token::Field(c, _)) if c.is_ascii_lowercase() || "HKMDYS".contains(*c));
            let most = if adjacent { width } else { 9 };
            match letter {
                'M' if width > 2 => {
                    let month = MONTHS.iter().position(|m| {
                        let name = if width == 3 { m.get(..3).unwrap_or(m) } else { m };
                        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
                    })?;
                    date.month = month as u32 + 1;
                    let name = MONTHS.get(month)?;
                    rest = rest.get(if width == 3 { 3 } else { name.len() }..)?;
                }
                'a' => {
                    afternoon = Some(rest.get(..2)?.eq_ignore_ascii_case("PM"));
                    rest = rest.get(2..)?;
                }
                'Z' => {
                    let (value, tail) = read_offset(rest)?;
                    (offset, rest) = (Some(value), tail);
                }
                'S' => {
                    let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
                    let (head, tail) = rest.split_at_checked(digits)?;
                    date.milli = format!("{head:0<3}").get(..3)?.parse().ok()?;
                    rest = tail;
                }
                _ => {
                    let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
                    let (head, tail) = rest.split_at_checked(digits)?;
                    let value: u32 = head.parse().ok()?;
                    rest = tail;
                    match letter {
                        // Two digits are of the century around now.
                        'y' | 'Y' | 'u' if width == 2 && digits == 2 => date.year = i64::from(value) + 2000,
                        'y' | 'Y' | 'u' => date.year = i64::from(value),
                        'M' => date.month = value,
                        'd' => date.day = value,
                        'H' => date.hour = value,
                        'k' => date.hour = value % 24,
                        'h' | 'K' => half_day = Some(value % 12),
                        'm' => date.minute = value,
                        's' => date.second = value,
                        _ => return None,
                    }
                }
            }
        }
        if let Some(hour) = half_day {
            date.hour = hour + if afternoon == Some(true) { 12 } else { 0 };
        }
        rest.is_empty().then_some((date, offset))
    }
}

/// The text up to the closing quote; two quotes are one.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut text = String::new();
    if chars.next_if_eq(&'\'').is_some() {
        return "'".to_owned();
    }
    while let Some(c) = chars.next() {
        match c {
            '\'' if chars.next_if_eq(&'\'').is_some() => text.push('\''),
            '\'' => break,
            c => text.push(c),
        }
    }
    text
}

fn push_field(letter: char, width: usize, date: &DateTime, offset_ms: i64, out: &mut String) {
    let number = |value: u32, out: &mut String| out.push_str(&format!("{value:0width$}"));
    match letter {
        'y' | 'Y' | 'u' if width == 2 => out.push_str(&format!("{:02}", date.year.rem_euclid(100))),
        'y' | 'Y' | 'u' => out.push_str(&format!("{:0width$}", date.year)),
        'M' if width > 2 => {
            let name = MONTHS.get(date.month as usize - 1).copied().unwrap_or_default();
            out.push_str(if width == 3 { name.get(..3).unwrap_or(name) } else { name });
        }
        'M' => number(date.month, out),
        'd' => number(date.day, out),
        'D' => number(date.day_of_year(), out),
        'H' => number(date.hour, out),
        'k' => number(if date.hour == 0 { 24 } else { date.hour }, out),
        'h' => number(if date.hour.is_multiple_of(12) { 12 } else { date.hour % 12 }, out),
        'K' => number(date.hour % 12, out),
        'm' => number(date.minute, out),
        's' => number(date.second, out),
        'S' => {
            let millis = format!("{:03}", date.milli);
            let _ = write!(out, "{:0<width$}", millis.get(..width.min(3)).unwrap_or(&millis));
        }
        'a' => out.push_str(if date.hour < 12 { "AM" } else { "PM" }),
        _ => {
            let minutes = offset_ms.abs() / 60_000;
            let colon = if width > 1 { ":" } else { "" };
            let sign = if offset_ms < 0 { '-' } else { '+' };
            let _ = write!(out, "{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60);
        }
    }
}

/// `Z`, `+0530` or `+05:30`.
fn read_offset(text: &str) -> Option<(i64, &str)> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some((0, rest));
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours: i64 = text.get(1..3)?.parse().ok()?;
    let rest = text.get(3..)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let minutes: i64 = rest.get(..2)?.parse().ok()?;
    (hours < 24 && minutes < 60).then(|| (sign * (hours * 60 + minutes) * 60_000, rest.get(2..).unwrap_or_default()))
}
