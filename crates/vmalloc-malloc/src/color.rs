//! Colors: blocks do not all start at the same place in their first page.
//!
//! A CPU looks for stores that a load depends on by the lowest twelve bits of an address. Where
//! blocks start with their pages, a copy from behind a short header in one to behind a somewhat
//! longer one in another loads, all the time, what seems to have just been stored. That takes four
//! times as long (`cargo xtask preload --bench --only copies`). Lines at equal places of pages also
//! share the same few places in the caches.
//!
//! ```text
//!   page      page      page
//!   │   ██████│█████████│██▌        a block, and its color before it
//!   └─►│ a multiple of 64 bytes, no more than the block leaves of its last page
//! ```
//!
//! The color follows from the page: it is as many of the lowest bits of a number that is spread
//! over all pages as the block leaves room for. So a free can tell the start of a block from an
//! address inside.

/// A line of the cache: colors are multiples of it.
pub(crate) const LINE: usize = 64;

/// A CPU compares the addresses of loads and stores by as many of their lowest bits, whatever the
/// size of pages.
const COMPARED_BITS: u32 = 12;
/// The bytes after which addresses look the same to it.
const PERIOD: usize = 1 << COMPARED_BITS;

/// 2^64 by the golden ratio: its multiples are spread evenly over their highest bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the color of a block in the area at `base`, of which so many bytes may stay free.
#[inline]
pub(crate) fn color(base: usize, room: usize) -> usize {
    let bits = (room / LINE + 1).ilog2();
    (lines(base) & ((1 << bits) - 1)) * LINE
}

/// Returns true if a block in the area at `base` may have that color.
#[inline]
pub(crate) fn is_color(base: usize, color: usize) -> bool {
    let number = color / LINE;
    color % LINE == 0 && number == lines(base) & ((number + 1).next_power_of_two() - 1)
}

/// Returns the number from which the colors of blocks in the area at `base` are: its lowest bits,
/// as many as there is room for.
#[inline]
fn lines(base: usize) -> usize {
    (((base / PERIOD) as u64).wrapping_mul(SPREAD) >> (u64::BITS - (PERIOD / LINE).ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_spread_over_the_room_that_there_is() {
        for room in [0, 63, 64, 1000, PERIOD - 1] {
            let mut seen = [0; PERIOD / LINE];
            for page in 1..=1000 {
                let color = color(page * PERIOD, room);
                assert!(color <= room && color.is_multiple_of(LINE) && is_color(page * PERIOD, color));
                seen[color / LINE] += 1;
            }
            let colors = 1 << (room / LINE + 1).ilog2();
            assert!(seen[..colors].iter().all(|&count| count * colors > 500), "{room}: {seen:?}");
        }
    }

    #[test]
    fn few_addresses_inside_a_page_may_be_starts() {
        let starts = |page| (0..PERIOD).filter(|&place| is_color(page * PERIOD, place)).count();
        let pages = if cfg!(miri) { 4 } else { 1000 };
        assert!((1..=pages).all(|page| (1..=7).contains(&starts(page))));
    }
}
