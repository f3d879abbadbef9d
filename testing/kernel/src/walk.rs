//! A look at the page tables, from outside the crate that makes them.

use crate::boot;
use crate::memory::direct;

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

fn entry(table: u64, index: usize) -> u64 {
    // SAFETY: a table, which stays one, and changes while it is read at most by single words.
    unsafe { direct::<u64>(table).add(index).read_volatile() }
}

/// Translates an address: to the physical address, and log2 of the bytes of the page.
pub(crate) fn leaf(addr: usize) -> Option<(u64, u32)> {
    let mut table = boot::root();
    for shift in [39, 30, 21, 12] {
        let entry = entry(table, addr >> shift & 511);
        if entry & PRESENT == 0 {
            return None;
        }
        if shift == 12 || shift < 39 && entry & LARGE != 0 {
            let offset = addr as u64 & ((1 << shift) - 1);
            return Some((entry & FRAME & !((1 << shift) - 1) | offset, shift));
        }
        table = entry & FRAME;
    }
    None
}

/// How many tables there are below the root for the upper half but for the direct map.
pub(crate) fn tables() -> u64 {
    (257..512).map(|index| below(entry(boot::root(), index), 4)).sum()
}

/// Tables at and below an entry of `level`. An entry above the lowest level that is not a leaf is a
/// table's while it is present.
fn below(entry_above: u64, level: u32) -> u64 {
    if entry_above & PRESENT == 0 || entry_above & LARGE != 0 {
        return 0;
    }
    if level == 2 {
        return 1;
    }
    1 + (0..512).map(|index| below(entry(entry_above & FRAME, index), level - 1)).sum::<u64>()
}
