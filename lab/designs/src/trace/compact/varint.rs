//! Numbers of as many bytes as they need: unsigned LEB128.

/// Appends `value`.
#[inline]
pub(super) fn put(bytes: &mut Vec<u8>, value: u64) {
    leb128::write::unsigned(bytes, value).expect("memory takes all bytes");
}

/// Appends the difference of two numbers, the sign in its lowest bit.
#[inline]
pub(super) fn put_difference(bytes: &mut Vec<u8>, value: u64, before: u64) {
    let difference = value.wrapping_sub(before) as i64;
    put(bytes, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Takes a number off the front; `None` when it does not end, or is too large.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    leb128::read::unsigned(bytes).ok()
}

/// Takes a difference off the front, and adds it.
#[inline]
pub(super) fn take_difference(bytes: &mut &[u8], before: u64) -> Option<u64> {
    let folded = take(bytes)?;
    let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
    Some(before.wrapping_add(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_differences_come_back() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_difference(&mut bytes, value, 1000);
            put_difference(&mut bytes, 1000, value);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert_eq!(take_difference(&mut rest, 1000), Some(value));
            assert_eq!(take_difference(&mut rest, value), Some(1000));
            assert_eq!(take(&mut rest), None);
        }
    }
}
