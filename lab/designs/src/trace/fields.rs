//! Numbers of a line of text.

use super::account::Reason;
use super::event::{PAGES, page_of};

/// A number, decimal, or hexadecimal behind `0x`.
pub(super) fn number(word: &str, name: &'static str) -> Result<u64, Reason> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
    // `from_str_radix` takes a sign.
    let read = if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() };
    read.ok_or(Reason::Field(name))
}

/// The page at an address, which must start one.
pub(super) fn page(addr: u64, name: &'static str) -> Result<u64, Reason> {
    page_of(addr).ok_or(Reason::Field(name))
}

/// That `pages` pages from `start` are there.
pub(super) fn check_room(start: u64, pages: u64, name: &'static str) -> Result<(), Reason> {
    let fits = start.checked_add(pages).is_some_and(|end| end <= PAGES);
    if fits && pages != 0 { Ok(()) } else { Err(Reason::Field(name)) }
}

/// `12.000345` or `12` as nanoseconds, if it is one of them.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.len() > 9 || !(whole.to_owned() + part).bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns = part.parse::<u64>().ok()? * 10_u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_the_base_they_are_written_in() {
        assert_eq!(number("18446683600572006400", "x"), Ok(0xffffc900001e4000));
        assert_eq!(number("0xffff", "x"), Ok(0xffff));
        for wrong in ["", "ffff", "-1", "+1", "0x+1", "1x", "18446744073709551616", "0x"] {
            assert_eq!(number(wrong, "x"), Err(Reason::Field("x")), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_up_to_nine_places() {
        assert_eq!(seconds("9.992079"), Some(9_992_079_000));
        assert_eq!(seconds("0.000000"), Some(0));
        assert_eq!(seconds("7"), Some(7_000_000_000));
        for wrong in ["", ".", "1.", ".1", "1.2.3", "-1.0", "99999999999999999999.0", "1.0000000000"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
