//! The reference for congruent areas: every base, from the top.

use crate::naive::NaiveMap;
use vmalloc_map::PageRange;

/// Returns the highest multiple of `align` from which each part is free in `model` and inside
/// `within`. For spans small enough to try every base.
pub fn highest_base(
    model: &NaiveMap,
    offsets: &[u64],
    sizes: &[u64],
    align: u64,
    within: PageRange,
) -> Option<u64> {
    let fits = |base: &u64| {
        offsets.iter().zip(sizes).all(|(&offset, &pages)| {
            let part = base.checked_add(offset).and_then(|start| PageRange::from_len(start, pages));
            part.is_some_and(|part| within.covers(&part) && model.is_free(part))
        })
    };
    // No part lies below its base plus its offset, so a base this far below the limits is too low
    // for all.
    let lowest = within.start().saturating_sub(offsets.iter().max().copied()?);
    (lowest..within.end()).rev().filter(|base| base % align == 0).find(fits)
}
