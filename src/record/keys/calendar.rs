//! Days and moments as calendar dates.

use crate::error::{Error, Result};
use crate::format::instant::{InstantTime, Zone};
use std::fmt::Write as _;

const MS_PER_DAY: i64 = 86_400_000;

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateTime {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub milli: u32,
}

impl DateTime {
    /// Of milliseconds since the epoch, as clocks show it `offset_ms` east of Greenwich.
    pub fn of(epoch_ms: i64, offset_ms: i64) -> DateTime {
        let local = epoch_ms.saturating_add(offset_ms);
        let (year, month, day) = civil(local.div_euclid(MS_PER_DAY));
        let rest = local.rem_euclid(MS_PER_DAY);
        DateTime {
            year,
            month,
            day,
            hour: (rest / 3_600_000) as u32,
            minute: (rest / 60_000 % 60) as u32,
            second: (rest / 1000 % 60) as u32,
            milli: (rest % 1000) as u32,
        }
    }

    /// Of milliseconds since the epoch, in this machine's zone.
    pub fn local(epoch_ms: i64) -> Result<DateTime> {
        let refused = || Error::invalid(format!("{epoch_ms} ms is beyond the years 0 to 9999"));
        let text = InstantTime::from_epoch_ms(epoch_ms, Zone::Local).ok_or_else(refused)?;
        let field = |from: usize, to: usize| text.as_str().get(from..to).and_then(|d| d.parse::<u32>().ok());
        let built = || {
            Some(DateTime {
                year: i64::from(field(0, 4)?),
                month: field(4, 6)?,
                day: field(6, 8)?,
                hour: field(8, 10)?,
                minute: field(10, 12)?,
                second: field(12, 14)?,
                milli: field(14, 17)?,
            })
        };
        built().ok_or_else(refused)
    }

    /// Milliseconds since the epoch; `None` for what is no date.
    pub fn epoch_ms(&self, offset_ms: i64) -> Option<i64> {
        let valid = (1..=12).contains(&self.month)
            && (1..=days_in_month(self.year, self.month)).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
            && (-290_000..=290_000).contains(&self.year);
        let seconds = i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        let days = days_of(self.year, self.month, self.day);
        valid.then(|| days * MS_PER_DAY + seconds * 1000 + i64::from(self.milli) - offset_ms)
    }

    /// 1 to 366.
    pub fn day_of_year(&self) -> u32 {
        (days_of(self.year, self.month, self.day) - days_of(self.year, 1, 1) + 1) as u32
    }
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day of days since the epoch. Years are counted from 1 March, so that the leap day comes last.
fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month as u32, (day_of_year - (153 * shifted + 2) / 5 + 1) as u32)
}

fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// `LocalDate.toString`.
pub(super) fn push_date(days: i64, out: &mut String) {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => out.push_str(&format!("{year:04}-{month:02}-{day:02}")),
        10_000.. => out.push_str(&format!("+{year}-{month:02}-{day:02}")),
        _ => out.push_str(&format!("-{:04}-{month:02}-{day:02}", -year)),
    }
}

/// `java.sql.Timestamp.toString`, which is in the machine's zone.
pub(super) fn push_local_timestamp(epoch_ms: i64, out: &mut String) -> Result<()> {
    let DateTime { year, month, day, hour, minute, second, milli } = DateTime::local(epoch_ms)?;
    let fraction = format!("{milli:03}");
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    let _ = write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction}");
    Ok(())
}
