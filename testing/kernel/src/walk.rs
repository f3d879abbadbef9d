//! A look at the page tables, from outside the crate that makes them.

use crate::arch::{DIRECT_MAP, LEVELS, is_leaf, is_present, leads_to};
use crate::boot;
use crate::memory::direct;

/// log2 of the entries of a table, and of the bytes of a page.
const TABLE_SHIFT: u32 = 9;
const PAGE_SHIFT: u32 = 12;
const ENTRIES: usize = 1 << TABLE_SHIFT;

fn entry(table: u64, index: usize) -> u64 {
    // SAFETY: a table, which stays one, and changes while it is read at most by single words.
    unsafe { direct::<u64>(table).add(index).read_volatile() }
}

/// log2 of the bytes that an entry of `level` stands for.
const fn shift(level: u32) -> u32 {
    PAGE_SHIFT + (level - 1) * TABLE_SHIFT
}

fn index(addr: usize, level: u32) -> usize {
    addr >> shift(level) & (ENTRIES - 1)
}

/// Translates an address: to the physical address, and log2 of the bytes of the page.
pub(crate) fn leaf(addr: usize) -> Option<(u64, u32)> {
    let mut table = boot::root();
    for level in (1..=LEVELS).rev() {
        let entry = entry(table, index(addr, level));
        if !is_present(entry) {
            return None;
        }
        if level == 1 || is_leaf(entry) {
            let inside = (1 << shift(level)) - 1;
            return Some((leads_to(entry) & !inside | addr as u64 & inside, shift(level)));
        }
        table = leads_to(entry);
    }
    None
}

/// How many tables there are below the root for the upper half but for the direct map, of 4 GiB.
pub(crate) fn tables() -> u64 {
    let map = index(DIRECT_MAP, LEVELS)..=index(DIRECT_MAP + (4 << 30) - 1, LEVELS);
    let others = (ENTRIES / 2..ENTRIES).filter(|index| !map.contains(index));
    others.map(|index| below(entry(boot::root(), index), LEVELS)).sum()
}

/// Tables at and below an entry of `level`. An entry above the lowest level that is not a leaf is a
/// table's while it is present.
fn below(entry_above: u64, level: u32) -> u64 {
    if !is_present(entry_above) || is_leaf(entry_above) {
        return 0;
    }
    if level == 2 {
        return 1;
    }
    1 + (0..ENTRIES).map(|index| below(entry(leads_to(entry_above), index), level - 1)).sum::<u64>()
}
