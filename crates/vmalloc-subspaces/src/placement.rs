//! Where a sub-space is put.

use crate::SubspaceError;
use vmalloc::{Fit, PageRange, Policy, RequestError};

/// Where a sub-space is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement(Place);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Exact { start: usize, end: usize },
    Free { bytes: usize, align: usize, policy: Policy },
}

impl Placement {
    /// Asks for exactly the addresses `[start, end)`, which are whole pages.
    pub const fn at(start: usize, end: usize) -> Self {
        Self(Place::Exact { start, end })
    }

    /// Asks for the lowest free range of `bytes` bytes, rounded up to pages.
    pub const fn lowest(bytes: usize) -> Self {
        Self(Place::Free { bytes, align: 1, policy: Policy::Lowest })
    }

    /// Asks for the highest free range of `bytes` bytes, rounded up to pages.
    pub const fn highest(bytes: usize) -> Self {
        Self(Place::Free { bytes, align: 1, policy: Policy::Highest })
    }

    /// Asks for a start at a multiple of `align` bytes, a power of two. An exact range stays as it
    /// is.
    #[must_use]
    pub const fn align(self, align: usize) -> Self {
        match self.0 {
            Place::Free { bytes, policy, .. } => Self(Place::Free { bytes, align, policy }),
            Place::Exact { .. } => self,
        }
    }

    /// Returns this placement in pages of 2^`shift` bytes.
    pub(crate) fn in_pages(&self, shift: u32) -> Result<PagePlacement, SubspaceError> {
        let page = 1usize << shift;
        match self.0 {
            Place::Exact { start, end } => {
                let whole = (start | end) & (page - 1) == 0;
                let range = PageRange::new((start >> shift) as u64, (end >> shift) as u64);
                let not_pages = SubspaceError::NotPages { start, end };
                range.filter(|_| whole).map(PagePlacement::At).ok_or(not_pages)
            }
            Place::Free { bytes, align, policy } => {
                if !align.is_power_of_two() {
                    return Err(RequestError::AlignNotPowerOfTwo { align: align as u64 }.into());
                }
                let align = (align >> shift).max(1) as u64;
                let fit = Fit::new(bytes.div_ceil(page) as u64).align(align).policy(policy);
                Ok(PagePlacement::Fit(fit))
            }
        }
    }
}

/// Where a sub-space is put, in pages.
pub(crate) enum PagePlacement {
    At(PageRange),
    Fit(Fit),
}
