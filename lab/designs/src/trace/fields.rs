//! Taking a line of text apart, from left to right.

use super::account::Reason;
use super::event::{PAGES, page_of};

/// The unread rest of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a str);

/// How a number may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// Decimal; hexadecimal behind `0x`.
    AsMarked,
    /// Hexadecimal, with or without `0x`.
    Hexadecimal,
}

impl<'a> Cursor<'a> {
    /// Takes `word` and returns true if it comes next.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Takes `word`.
    pub(super) fn expect(&mut self, word: &str, name: &'static str) -> Result<(), Reason> {
        if self.eat(word) { Ok(()) } else { Err(Reason::Field(name)) }
    }

    pub(super) fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    /// Takes all before the next of `ends`, or everything.
    pub(super) fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (taken, rest) = self.0.split_at(self.0.find(ends).unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn number(&mut self, base: Base, name: &'static str) -> Result<u64, Reason> {
        let marked = self.eat("0x");
        let digits = self.until(|c| !c.is_ascii_hexdigit());
        let radix = if marked || base == Base::Hexadecimal { 16 } else { 10 };
        // A sign is no digit, so that none gets here.
        u64::from_str_radix(digits, radix).map_err(|_| Reason::Field(name))
    }

    /// `key=number` behind spaces.
    pub(super) fn value(&mut self, key: &'static str, base: Base) -> Result<u64, Reason> {
        self.skip_spaces();
        self.expect(key, key)?;
        self.expect("=", key)?;
        self.number(base, key)
    }

    /// Nothing but spaces is left.
    pub(super) fn end(mut self) -> Result<(), Reason> {
        self.skip_spaces();
        if self.0.is_empty() { Ok(()) } else { Err(Reason::Trailing) }
    }
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
    let digits = |text: &str| (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(());
    digits(whole).and_then(|()| digits(part))?;
    if part.len() > 9 {
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
        let read = |text, base| Cursor(text).number(base, "x");
        assert_eq!(read("18446683600572006400 ", Base::AsMarked), Ok(0xffffc900001e4000));
        assert_eq!(read("0xffff", Base::AsMarked), Ok(0xffff));
        assert_eq!(read("ffff", Base::Hexadecimal), Ok(0xffff));
        for wrong in ["", "ffff", "-1", "+1", "18446744073709551616", "0x"] {
            assert_eq!(read(wrong, Base::AsMarked), Err(Reason::Field("x")), "{wrong}");
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
