//! Values of settings, as texts of the environment.

/// Returns the meaning of `0` and `1`.
pub(crate) fn switch(value: &[u8]) -> Option<bool> {
    match value {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

/// Returns a number of decimal digits.
pub(crate) fn number(value: &[u8]) -> Option<usize> {
    let digits = value.iter().try_fold(0_usize, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    digits.filter(|_| !value.is_empty())
}

/// Returns a number of bytes up to `most`, which may end in `K`, `M`, `G` or `T`.
pub(crate) fn bytes(value: &[u8], most: usize) -> Option<usize> {
    let unit = |letter: u8| b"KMGT".iter().position(|&it| it == letter.to_ascii_uppercase());
    let (digits, shift) = match value.split_last() {
        Some((&last, rest)) if unit(last).is_some() => (rest, 10 * (unit(last)? + 1)),
        _ => (value, 0),
    };
    number(digits)?.checked_mul(1 << shift).filter(|&bytes| bytes <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_make_sense_are_read_and_others_refused() {
        assert_eq!(
            [switch(b"0"), switch(b"1"), switch(b"yes"), switch(b"")],
            [Some(false), Some(true), None, None]
        );
        assert_eq!([number(b"012"), number(b""), number(b"-1"), number(b"1x")], [Some(12), None, None, None]);
        let most = 1 << 40;
        assert_eq!(
            [bytes(b"64K", most), bytes(b"3m", most), bytes(b"7", most)],
            [Some(64 << 10), Some(3 << 20), Some(7)]
        );
        assert_eq!(bytes(b"1T", most), Some(1 << 40));
        for wrong in [&b"2T"[..], b"K", b"", b"64KK", b"99999999999999999999", b"18446744073709551615T"] {
            assert_eq!(bytes(wrong, most), None, "{wrong:?}");
        }
    }
}
