//! Steps of the probe that differ, for ostd as published.

use super::{VMALLOC_VADDR_RANGE, kvirt_area::KVirtArea};

/// Pairs that are measured: each may walk all holes.
pub(super) const PAIRS: usize = 1_000;

pub(super) const BUFFERS: usize = 2_000;

/// Nothing is put off.
pub(super) fn settle() {}

/// Returns the size of the free range below all areas.
pub(super) fn rest<'a>(areas: impl Iterator<Item = &'a KVirtArea>) -> usize {
    areas.map(KVirtArea::start).min().unwrap() - VMALLOC_VADDR_RANGE.start
}
