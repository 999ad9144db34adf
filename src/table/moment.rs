//! Moments as people and tools write them: an instant time, a date, or a date and time.
//!
//! Hudi's own readers accept `yyyy-MM-dd`, `yyyy-MM-dd HH:mm:ss` and `yyyy-MM-dd HH:mm:ss.SSS` beside instants; a `T` between
//! date and time is the same. They are wall-clock times in the table's zone, as instants are.

use crate::error::{Error, Result};
use crate::format::instant::InstantTime;

/// The instant time that stands for a moment; a date stands for its first millisecond.
pub fn parse(moment: &str) -> Result<InstantTime> {
    if let Some(instant) = InstantTime::parse(moment) {
        return Ok(instant);
    }
    digits(moment).and_then(|d| InstantTime::parse(&d)).ok_or_else(|| {
        Error::invalid(format!("{moment:?} is not a moment")).with_hint(
            "write an instant time such as 20260131235959000, a date such as 2026-01-31, or 2026-01-31 23:59:59.000",
        )
    })
}

/// The 17 digits of a dashed date with an optional time.
fn digits(moment: &str) -> Option<String> {
    let (date, time) = match moment.split_once([' ', 'T']) {
        Some((date, time)) => (date, time),
        None => (moment, "00:00:00"),
    };
    let (time, millis) = time.split_once('.').unwrap_or((time, "000"));
    let date = fields(date, '-', &[4, 2, 2])?;
    let time = fields(time, ':', &[2, 2, 2])?;
    let millis = fields(millis, '.', &[3])?;
    Some(format!("{date}{time}{millis}"))
}

/// The fields joined, if each has exactly its number of digits.
fn fields(text: &str, separator: char, widths: &[usize]) -> Option<String> {
    let parts: Vec<&str> = text.split(separator).collect();
    let fits = parts.len() == widths.len()
        && parts
            .iter()
            .zip(widths)
            .all(|(part, width)| part.len() == *width && part.bytes().all(|b| b.is_ascii_digit()));
    fits.then(|| parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_dates_and_times_are_moments() {
        for (moment, instant) in [
            ("001", "001"),
            ("20260131235959", "20260131235959"),
            ("20260131235959123", "20260131235959123"),
            ("2026-01-31", "20260131000000000"),
            ("2026-01-31 23:59:59", "20260131235959000"),
            ("2026-01-31T23:59:59.123", "20260131235959123"),
        ] {
            assert_eq!(parse(moment).unwrap().as_str(), instant, "{moment}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_examples() {
        for moment in ["", "now", "2026-1-31", "2026-01-31 23:59", "-1", "../x", "2026-01-31 23:59:59.1", "１"] {
            let error = parse(moment).unwrap_err();
            assert!(error.hint().unwrap().contains("2026-01-31"), "{moment}");
        }
    }
}
