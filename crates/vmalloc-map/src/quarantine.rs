//! Areas that are out of use, whose pages come back only for a token.
//!
//! An address may still be held elsewhere when it is freed: in a TLB, in a queue, by a reader. The
//! caller takes it out of use at once, waits until it is held nowhere, and then gives the token to
//! the map.

use super::AreaMap;
use crate::NoArea;
use crate::PageRange;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts the maps that have handed out tokens: the number of a map is in its tokens. It is the
/// core's own atomic in every build, for nothing is published through it.
static TOKEN_MAPS: AtomicUsize = AtomicUsize::new(0);

/// An area in quarantine: neither busy nor free, until this token comes back.
///
/// There is one for each such area, and it can't be copied. It belongs to the map that gave it: no
/// other map takes it, nor a copy of that map. When it is dropped the area stays as it is for good,
/// and so do the areas in quarantine of a map that was cloned or read back, in the copy.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the area's pages come back only for this token"]
pub struct Quarantined {
    area: PageRange,
    map: usize,
}

impl Quarantined {
    /// Returns the pages of the area.
    #[must_use]
    pub const fn area(&self) -> PageRange {
        self.area
    }
}

impl AreaMap<'_> {
    /// Takes the busy area that starts at `start` out of use, and returns the token for its pages.
    /// O(1).
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, Fit, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0, 100).unwrap())?;
    /// map.alloc(&Fit::new(10))?;
    /// let token = map.quarantine(0)?;
    /// assert_eq!(map.find(0), None);
    /// assert_eq!(map.alloc(&Fit::new(1))?.start(), 10, "not free yet");
    /// // … here every CPU forgets the address …
    /// assert_eq!(map.free_quarantined(token)?.len(), 10);
    /// assert_eq!(map.alloc(&Fit::new(1))?.start(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoArea`]; nothing is changed.
    pub fn quarantine(&mut self, start: u64) -> Result<Quarantined, NoArea> {
        let area = self.retire(start)?;
        if self.token_map == 0 {
            self.token_map = TOKEN_MAPS.fetch_add(1, Relaxed) + 1;
        }
        Ok(Quarantined { area, map: self.token_map })
    }

    /// Frees the area of `token`, and returns its pages. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`NoArea`] for a token of another map, which is dropped; nothing else is changed.
    pub fn free_quarantined(&mut self, token: Quarantined) -> Result<PageRange, NoArea> {
        let page = token.area.start();
        if token.map != self.token_map {
            return Err(NoArea::Nothing { page });
        }
        // Nothing but the token ends the quarantine, so the area is as it was.
        let (leaf, bit) = self.area_at(page)?;
        Ok(self.give_back(leaf, bit))
    }
}
