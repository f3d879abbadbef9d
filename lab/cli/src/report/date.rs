//! The date, without a calendar crate.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in UTC: `2025-11-22 00:10 UTC`.
pub(super) fn now() -> String {
    told(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date. The days by Howard Hinnant's `civil_from_days`, for years after 1970.
fn told(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400 + 719_468, seconds / 60 % 1440);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(told(0), "1970-01-01 00:00 UTC");
        assert_eq!(told(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(told(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(told(1_767_225_599), "2025-12-31 23:59 UTC");
        assert_eq!(told(4_107_542_400), "2100-03-01 00:00 UTC");
    }
}
