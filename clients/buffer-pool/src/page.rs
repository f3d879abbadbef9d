//! The content of a page: its number, how often it was changed, a payload that follows from both, and a checksum.

use crate::PAGE;
use thiserror::Error;

/// A page that does not hold what was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// The checksum does not fit the content.
    #[error("page {page}: the checksum is wrong")]
    Checksum {
        /// The page that was read.
        page: u64,
    },
    /// The content is another page's.
    #[error("page {page}: it holds page {found}")]
    Misplaced {
        /// The page that was read.
        page: u64,
        /// The page whose content it is.
        found: u64,
    },
}

const NUMBER: usize = 4;
const CHANGES: usize = 12;
const PAYLOAD: usize = 20;
/// The first byte behind number, changes and checksum.
pub const FIRST_FIELD: usize = PAYLOAD;

/// Fills a page with the content that it has after so many changes.
pub fn write(bytes: &mut [u8; PAGE], page: u64, changes: u64) {
    bytes[NUMBER..CHANGES].copy_from_slice(&page.to_le_bytes());
    bytes[CHANGES..PAYLOAD].copy_from_slice(&changes.to_le_bytes());
    bytes[PAYLOAD..].fill((page.wrapping_mul(31) ^ changes) as u8);
    let sum = crc32fast::hash(&bytes[NUMBER..]);
    bytes[..NUMBER].copy_from_slice(&sum.to_le_bytes());
}

/// Checks a page. Returns how often it was changed.
///
/// # Errors
/// [`Damage`] names what is wrong with it.
pub fn check(bytes: &[u8; PAGE], page: u64) -> Result<u64, Damage> {
    let sum = crc32fast::hash(&bytes[NUMBER..]);
    if bytes[..NUMBER] != sum.to_le_bytes() {
        return Err(Damage::Checksum { page });
    }
    check_number(bytes, page)?;
    Ok(number(bytes, CHANGES))
}

/// Checks that a page is the one that was asked for.
///
/// # Errors
/// [`Damage::Misplaced`] if it is another one.
pub fn check_number(bytes: &[u8; PAGE], page: u64) -> Result<(), Damage> {
    let found = number(bytes, NUMBER);
    if found == page { Ok(()) } else { Err(Damage::Misplaced { page, found }) }
}

fn number(bytes: &[u8; PAGE], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_damaged_or_moved_is_found() {
        let mut bytes = [0; PAGE];
        assert_eq!(check(&bytes, 0), Err(Damage::Checksum { page: 0 }), "zeros are no page");
        write(&mut bytes, 7, 3);
        assert_eq!(check(&bytes, 7), Ok(3));
        assert_eq!(check(&bytes, 8), Err(Damage::Misplaced { page: 8, found: 7 }));
        bytes[PAGE - 1] ^= 1;
        assert_eq!(check(&bytes, 7), Err(Damage::Checksum { page: 7 }));
    }
}
