//! Congruent areas: several areas at the same distances from one base, as the units of per-CPU
//! memory have to be.
//!
//! ```text
//!             base          + offset 0      + offset 1                     + offset 2
//!   ░░░░░░░░░░│░░░░░░░░░░░░░│███████│░░░░░░░│███████████│░░░░░░░░░░░░░░░░░░│████│░░░░
//! ```
//!
//! # Search
//! The base comes down from the top. A part that does not fit at a base is looked for below, by a
//! search for the highest place; where it is found tells the highest base that this part leaves
//! possible, and all parts are asked again from there. When each has fitted in turn, the base is
//! the highest there is: no higher one was passed over without a part that refused it.
//!
//! # Cost
//! A part that has come down into a free range fits there until the base leaves it below. So it
//! refuses at most once for each of the r free ranges of its size, and between two refusals each of
//! the n parts is asked once: at most n²·(r + 1) searches of O(log n) steps, whatever the span.
//! Nothing is stepped through page by page.
//!
//! # All or nothing
//! Areas are made one by one, by exact claims of pages known to be free. Only memory for records
//! can run out then, and in that case what was made is freed again, which needs none.

use super::AreaMap;
use crate::PageRange;
use crate::{CongruentError, FitError, NoCongruentSpace};
use crate::{Fit, Policy};

/// A checked request for congruent areas, in pages.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    offsets: &'a [u64],
    sizes: &'a [u64],
    align: u64,
    /// From the base to the end of the last part.
    extent: u64,
}

impl<'a> Parts<'a> {
    fn check(offsets: &'a [u64], sizes: &'a [u64], align: u64) -> Result<Self, CongruentError> {
        if offsets.len() != sizes.len() {
            return Err(CongruentError::LengthsDiffer { offsets: offsets.len(), sizes: sizes.len() });
        }
        if offsets.is_empty() {
            return Err(CongruentError::NoAreas);
        }
        if !align.is_power_of_two() {
            return Err(CongruentError::AlignNotPowerOfTwo { align });
        }
        let mut extent = 0;
        for (index, (offset, &pages)) in offsets.iter().zip(sizes).enumerate() {
            if pages == 0 {
                return Err(CongruentError::ZeroSize { index });
            }
            let end = offset.checked_add(pages).ok_or(CongruentError::Overflow { index })?;
            extent = extent.max(end);
        }
        let parts = Self { offsets, sizes, align, extent };
        match parts.first_overlap() {
            Some((first, second)) => Err(CongruentError::Overlap { first, second }),
            None => Ok(parts),
        }
    }

    /// Returns two parts that overlap. It takes one pass if they ascend. Else each is compared with
    /// each, which takes no memory, and of parts there are as many as a machine has groups of CPUs.
    fn first_overlap(&self) -> Option<(usize, usize)> {
        let ascending = (1..self.len()).all(|index| self.end(index - 1) <= self.offsets[index]);
        if ascending {
            return None;
        }
        let overlap = |first: usize, second: usize| {
            self.offsets[first] < self.end(second) && self.offsets[second] < self.end(first)
        };
        (1..self.len())
            .find_map(|second| (0..second).find(|&first| overlap(first, second)).map(|first| (first, second)))
    }

    fn len(&self) -> usize {
        self.offsets.len()
    }

    fn end(&self, index: usize) -> u64 {
        self.offsets[index] + self.sizes[index]
    }

    /// Returns the sum of the sizes: they don't overlap, so there is one.
    fn pages(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Returns part `index` of those at `base`.
    fn part(&self, base: u64, index: usize) -> PageRange {
        let start = base + self.offsets[index];
        PageRange::of(start, start + self.sizes[index])
    }

    /// Returns the highest base from which no part ends behind page `end`.
    fn highest_base(&self, end: u64) -> Option<u64> {
        end.checked_sub(self.extent).map(|base| base & !(self.align - 1))
    }

    /// Returns what part `index` asks for, if the base is to be a multiple of the alignment.
    fn fit(&self, index: usize) -> Fit {
        let phase = self.offsets[index] & (self.align - 1);
        Fit::new(self.sizes[index]).align(self.align).phase(phase).policy(Policy::Highest)
    }
}

impl AreaMap<'_> {
    /// Hands out one busy area for each of `sizes`, at the same distances from one base, which is
    /// returned: the highest multiple of `align` from which all of them are free and inside
    /// `within`. All in pages. The base itself need not be in the span. Offsets may come in any
    /// order, and leave gaps. Cost: see the module's documentation.
    ///
    /// ```
    /// use vmalloc_map::{AreaMap, PageRange};
    ///
    /// let mut map = AreaMap::new(PageRange::new(0x1000, 0x2000).unwrap())?;
    /// let base = map.alloc_congruent(&[0x100, 0], &[4, 8], 0x10, None)?;
    /// assert_eq!(base, 0x1ef0);
    /// assert_eq!(map.find(base + 0x103), PageRange::new(0x1ff0, 0x1ff4));
    /// map.free(base)?;
    /// map.free(base + 0x100)?;
    /// assert!(map.is_whole());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CongruentError`]; nothing is changed.
    pub fn alloc_congruent(
        &mut self,
        offsets: &[u64],
        sizes: &[u64],
        align: u64,
        within: Option<PageRange>,
    ) -> Result<u64, CongruentError> {
        self.steps.reset();
        let parts = Parts::check(offsets, sizes, align)?;
        let within = within.unwrap_or(self.span()).inside(self.span())?;
        match self.congruent_base(&parts, within) {
            Some(base) => self.claim_parts(&parts, base).map(|()| base),
            None => Err(self.no_congruent_space(&parts, within)),
        }
    }

    fn congruent_base(&self, parts: &Parts<'_>, within: PageRange) -> Option<u64> {
        let mut base = parts.highest_base(within.end())?;
        let (mut fitting, mut index) = (0, 0);
        while fitting < parts.len() {
            let possible = self.base_below(parts, base, index, within)?;
            if possible < base {
                (base, fitting) = (possible, 0);
            }
            fitting += 1;
            index = (index + 1) % parts.len();
        }
        Some(base)
    }

    /// Returns the highest base, up to `base`, that part `index` leaves possible.
    fn base_below(&self, parts: &Parts<'_>, base: u64, index: usize, within: PageRange) -> Option<u64> {
        let below = PageRange::new(within.start(), parts.part(base, index).end())?;
        let place = self.highest(&parts.fit(index), below)?;
        // Congruent, but a base below zero is none.
        place.start.checked_sub(parts.offsets[index])
    }

    fn claim_parts(&mut self, parts: &Parts<'_>, base: u64) -> Result<(), CongruentError> {
        for index in 0..parts.len() {
            if let Err(error) = self.alloc_at(parts.part(base, index)) {
                for made in 0..index {
                    let freed = self.free(parts.part(base, made).start());
                    debug_assert!(freed.is_ok(), "an area just made can be freed");
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    #[cold]
    fn no_congruent_space(&self, parts: &Parts<'_>, within: PageRange) -> CongruentError {
        let (areas, pages, extent, align) = (parts.len(), parts.pages(), parts.extent, parts.align);
        NoCongruentSpace { areas, pages, extent, align, within, largest: self.largest_free() }.into()
    }
}

impl From<FitError> for CongruentError {
    /// Returns the error of an exact claim of pages that are free: only memory for records can be
    /// short.
    fn from(error: FitError) -> Self {
        match error {
            FitError::Request(error) => error.into(),
            _ => Self::Metadata,
        }
    }
}
