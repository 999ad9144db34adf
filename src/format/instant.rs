//! Instants of the timeline: their times, actions, states and file names (docs/format.md, "Instants").
//!
//! An instant time is a string of digits and is compared as a string, never as a number or a date: test tables use
//! `001`, metadata tables use `00000000000000001`, and a 14-digit time sorts before every 17-digit time that it begins.

mod moment;
mod name;

pub use moment::Zone;
pub use name::{Action, Instant, Layout, State, pending_file_name};

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Most digits that an instant time may have: 17, plus the suffixes of metadata-table services, plus slack.
pub const DIGITS_MAX: usize = 23;

/// Digits of a time with seconds: `yyyyMMddHHmmss`, before 0.10.
const SECONDS_LEN: usize = 14;
/// Digits of a time with milliseconds: `yyyyMMddHHmmssSSS`.
const MILLIS_LEN: usize = 17;
/// The milliseconds of a time that was written without any.
const MILLIS_OF_SECONDS: &str = "999";

/// The time that names an instant: all digits, ordered as Hudi orders it (plain string comparison).
///
/// Small and `Copy`, because every file of a table carries one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstantTime {
    // Field order matters: the derived order would compare `digits` first, and zero padding makes that string order.
    digits: [u8; DIGITS_MAX],
    len: u8,
}

impl InstantTime {
    /// The instant of a METADATA_ONLY bootstrap: its base files are skeletons without data columns.
    pub const METADATA_BOOTSTRAP: &'static str = "00000000000001";

    /// Parses digits; anything else, an empty string and more than [`DIGITS_MAX`] digits are refused.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.is_empty() || bytes.len() > DIGITS_MAX || !bytes.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut digits = [0; DIGITS_MAX];
        digits.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(InstantTime { digits, len: bytes.len() as u8 })
    }

    /// The smallest instant, `0`: Hudi's invalid instant.
    pub fn zero() -> Self {
        let mut digits = [0; DIGITS_MAX];
        digits[0] = b'0';
        InstantTime { digits, len: 1 }
    }

    /// The 14-digit time that this one may stand for: before 0.10 times had no milliseconds, and later releases append `999`
    /// to them. Looking for an instant on the timeline tries both.
    pub fn without_appended_millis(&self) -> Option<Self> {
        let text = self.as_str();
        (text.len() == MILLIS_LEN).then(|| text.strip_suffix(MILLIS_OF_SECONDS).and_then(Self::parse))?
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        self.digits.get(..self.len as usize).and_then(|d| std::str::from_utf8(d).ok()).unwrap_or_default()
    }
}

impl Ord for InstantTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Zero padding sorts below every digit, so a prefix sorts first, as it does for strings.
        self.digits.cmp(&other.digits)
    }
}

impl PartialOrd for InstantTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for InstantTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for InstantTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for InstantTime {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            Error::invalid(format!("{text:?} is not an instant time")).with_hint("an instant time is 1 to 23 digits")
        })
    }
}
