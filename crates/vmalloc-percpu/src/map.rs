//! Congruent areas of an area map, in pages.

use crate::error::CongruentError;
use crate::parts::{Lists, Parts};
use vmalloc::{AreaMap, Fit, FitError, PageRange, RequestError};

/// Hands out one busy area for each of `sizes`, at the same distances from one base, which is
/// returned: the highest multiple of `align` from which all of them are free and inside `within`.
/// All in pages. The base itself need not be in the span. Offsets may come in any order, and leave
/// gaps. Cost: see the [crate](crate).
///
/// # Errors
/// [`CongruentError`]; nothing is changed.
pub fn alloc_in_map(
    map: &mut AreaMap<'_>,
    offsets: &[u64],
    sizes: &[u64],
    align: u64,
    within: Option<PageRange>,
) -> Result<u64, CongruentError> {
    let parts = Parts::check(Lists::Pages(offsets, sizes), align)?;
    let within = within.unwrap_or(map.span());
    if !map.span().covers(&within) {
        return Err(RequestError::OutsideSpace { asked: within, space: map.span() }.into());
    }
    let place = |fit: &Fit| map.place_for(fit).ok().map(|place| place.start());
    let base = parts.base(within, place).ok_or_else(|| parts.no_space(within, map.largest_free()))?;
    for (made, part) in parts.at(base).enumerate() {
        if let Err(error) = map.alloc_at(part) {
            for part in parts.at(base).take(made) {
                let freed = map.free(part.start());
                debug_assert!(freed.is_ok(), "an area just made can be freed");
            }
            // The pages are free, so only memory for records can be short.
            debug_assert_eq!(error, FitError::Metadata);
            return Err(CongruentError::Metadata);
        }
    }
    Ok(base)
}
