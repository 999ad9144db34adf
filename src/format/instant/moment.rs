//! Instant times as moments: milliseconds since the epoch and back.
//!
//! An instant time is the wall clock of a zone that the table names as `UTC` or `LOCAL`; which zone LOCAL was is recorded
//! nowhere, so this machine's zone stands in for it, as it does in Hudi's own readers.

use super::{InstantTime, MILLIS_LEN, MILLIS_OF_SECONDS, SECONDS_LEN};

/// The zone of a table's instant times: `hoodie.table.timeline.timezone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Zone {
    /// The writer's zone, taken to be this machine's.
    #[default]
    Local,
    /// UTC.
    Utc,
}

/// The fields of a time of day on a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calendar {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

const MS_PER_SECOND: i64 = 1000;
const SECONDS_PER_DAY: i64 = 86_400;

impl InstantTime {
    /// Milliseconds since the epoch; `None` for times that are no dates (`001`, the initial instants of metadata tables).
    ///
    /// 14 digits count as millisecond 999; digits beyond 17 are service suffixes and are left out.
    pub fn epoch_ms(&self, zone: Zone) -> Option<i64> {
        let text = self.as_str();
        let millis = match text.len() {
            SECONDS_LEN => MILLIS_OF_SECONDS,
            len if len >= MILLIS_LEN => text.get(SECONDS_LEN..MILLIS_LEN)?,
            _ => return None,
        };
        let field = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
        let calendar = Calendar {
            year: field(0, 4)?,
            month: field(4, 6)?,
            day: field(6, 8)?,
            hour: field(8, 10)?,
            minute: field(10, 12)?,
            second: field(12, 14)?,
        };
        if !calendar.is_date() {
            return None;
        }
        let seconds = match zone {
            Zone::Utc => calendar.utc_seconds(),
            Zone::Local => calendar.local_seconds()?,
        };
        Some(seconds * MS_PER_SECOND + millis.parse::<i64>().ok()?)
    }

    /// The 17-digit time of a moment; `None` outside the years 0 to 9999.
    pub fn from_epoch_ms(epoch_ms: i64, zone: Zone) -> Option<InstantTime> {
        let seconds = epoch_ms.div_euclid(MS_PER_SECOND);
        let calendar = match zone {
            Zone::Utc => Calendar::from_utc_seconds(seconds),
            Zone::Local => Calendar::from_local_seconds(seconds)?,
        };
        let Calendar { year, month, day, hour, minute, second } = calendar;
        if !(0..=9999).contains(&year) {
            return None;
        }
        let millis = epoch_ms.rem_euclid(MS_PER_SECOND);
        InstantTime::parse(&format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{millis:03}"))
    }
}

impl Calendar {
    fn is_date(&self) -> bool {
        (1..=12).contains(&self.month)
            && (1..=31).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
            && self.year > 0
    }

    /// Days are counted in eras of 400 years that begin on 1 March, so that the leap day comes last.
    fn utc_seconds(&self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        days * SECONDS_PER_DAY + self.hour * 3600 + self.minute * 60 + self.second
    }

    fn from_utc_seconds(seconds: i64) -> Calendar {
        let day_seconds = seconds.rem_euclid(SECONDS_PER_DAY);
        let days = seconds.div_euclid(SECONDS_PER_DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Calendar {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: day_seconds / 3600,
            minute: day_seconds / 60 % 60,
            second: day_seconds % 60,
        }
    }

    fn local_seconds(&self) -> Option<i64> {
        // SAFETY: `tm` is plain data for which all zeros is a value; `mktime` reads and normalises the one we own.
        let seconds = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            tm.tm_year = i32::try_from(self.year - 1900).ok()?;
            tm.tm_mon = i32::try_from(self.month - 1).ok()?;
            tm.tm_mday = i32::try_from(self.day).ok()?;
            tm.tm_hour = i32::try_from(self.hour).ok()?;
            tm.tm_min = i32::try_from(self.minute).ok()?;
            tm.tm_sec = i32::try_from(self.second).ok()?;
            tm.tm_isdst = -1;
            libc::mktime(&mut tm)
        };
        Some(seconds)
    }

    fn from_local_seconds(seconds: i64) -> Option<Calendar> {
        // SAFETY: both pointers are to values we own for the call; `localtime_r` fills `tm` or returns null.
        let tm = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            if libc::localtime_r(&seconds, &mut tm).is_null() {
                return None;
            }
            tm
        };
        Some(Calendar {
            year: i64::from(tm.tm_year) + 1900,
            month: i64::from(tm.tm_mon) + 1,
            day: i64::from(tm.tm_mday),
            hour: i64::from(tm.tm_hour),
            minute: i64::from(tm.tm_min),
            second: i64::from(tm.tm_sec),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(text: &str) -> Option<i64> {
        InstantTime::parse(text).unwrap().epoch_ms(Zone::Utc)
    }

    #[test]
    fn dates_and_times_that_are_none() {
        assert_eq!(ms("19700101000000000"), Some(0));
        assert_eq!(ms("20201015074529"), Some(1_602_747_929_999));
        assert_eq!(ms("20201015074529999"), Some(1_602_747_929_999));
        assert_eq!(ms("20240229120000001"), Some(1_709_208_000_001));
        assert_eq!(ms("20240229120000001002"), Some(1_709_208_000_001));
        for none in ["0", "001", "00000000000000", "00000000000001", "00000000000000010", "20241301000000000"] {
            assert_eq!(ms(none), None, "{none}");
        }
    }

    #[test]
    fn appended_milliseconds() {
        let shorter = |t: &str| InstantTime::parse(t).unwrap().without_appended_millis().map(|t| t.to_string());
        assert_eq!(shorter("20201015074529999").as_deref(), Some("20201015074529"));
        assert_eq!(shorter("20201015074529998"), None);
        assert_eq!(shorter("20201015074529"), None);
        assert_eq!(shorter("999"), None);
    }

    proptest! {
        #[test]
        fn moments_round_trip(at in -62_135_596_800_000i64..253_402_300_800_000) {
            let time = InstantTime::from_epoch_ms(at, Zone::Utc).unwrap();
            prop_assert_eq!(time.epoch_ms(Zone::Utc), Some(at));
        }

        #[test]
        fn local_moments_stay_within_a_day(at in 0i64..4_000_000_000_000) {
            let time = InstantTime::from_epoch_ms(at, Zone::Local).unwrap();
            let back = time.epoch_ms(Zone::Local).unwrap();
            // Equal but for the hour that a zone repeats when its summer time ends.
            prop_assert!((back - at).abs() <= 2 * 3_600_000, "{} {}", at, back);
        }
    }
}
