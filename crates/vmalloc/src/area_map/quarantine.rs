//! Areas that are out of use, whose pages come back only for a token.
//!
//! An address may still be held elsewhere when it is freed: in a TLB, in a queue, by a reader. The
//! caller takes it out of use at once, waits until it is held nowhere, and then gives the token to
//! the map.

use super::AreaMap;
use crate::addr::PageRange;
use crate::error::FreeError;

/// An area in quarantine: neither busy nor free, until this token comes back.
///
/// There is one for each such area, and it can't be copied. When it is dropped the area stays as it
/// is for good.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the area's pages come back only for this token"]
pub struct Quarantined {
    area: PageRange,
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
    /// use vmalloc::{AreaMap, Fit, PageRange};
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
    /// [`FreeError`]; nothing is changed.
    pub fn quarantine(&mut self, start: u64) -> Result<Quarantined, FreeError> {
        self.retire(start).map(|area| Quarantined { area })
    }

    /// Frees the area of `token`, and returns its pages. O(log n), and coalesced at once.
    ///
    /// # Errors
    /// [`FreeError`] for a token of another map; nothing is changed.
    pub fn free_quarantined(&mut self, token: Quarantined) -> Result<PageRange, FreeError> {
        self.own(&token)?;
        self.release(token.area.start())
    }

    /// Makes the area of `token` busy again, and returns its pages. O(1).
    ///
    /// # Errors
    /// [`FreeError`] for a token of another map; nothing is changed.
    pub fn reuse_quarantined(&mut self, token: Quarantined) -> Result<PageRange, FreeError> {
        self.own(&token)?;
        self.revive(token.area.start())
    }

    fn own(&self, token: &Quarantined) -> Result<(), FreeError> {
        let page = token.area.start();
        if self.retired(page) == Some(token.area) { Ok(()) } else { Err(FreeError::NotAnArea { page }) }
    }
}
