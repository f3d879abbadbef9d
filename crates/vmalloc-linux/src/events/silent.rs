//! Events where no feature asks for them.

use vmalloc::{PageRange, PlatformError};

#[inline]
pub(crate) fn growth(_: PageRange, _: u32) {}

#[inline]
pub(crate) fn purge(_: &[PageRange], _: u32) {}

#[inline]
pub(crate) fn refusal(_: &PlatformError) {}

#[inline]
pub(crate) fn reservation(_: usize, _: usize) {}
