//! Congruent areas of a space, in bytes.

use crate::error::{CongruentError, CongruentFreeError};
use crate::parts::{Lists, Parts};
use core::mem;
use heap::vec::Vec;
use vmalloc::{Fit, FitError, FreeError, Kind, PageRange, Platform, Space, SpaceRef, Tag};

/// The tag of the areas, for reports.
pub const TAG: &str = "percpu";

const AS_TAG: Tag = Tag::new(TAG);

/// Owned areas at fixed distances from one base, which is their [`addr`](Self::addr): addresses,
/// for pages that the caller maps there. They are freed together, as by [`free`].
#[derive(Debug)]
pub struct CongruentAreas<S: SpaceRef> {
    space: S,
    base: usize,
    areas: Vec<PageRange>,
}

impl<S: SpaceRef> CongruentAreas<S> {
    /// Reserves one area for each of `sizes`, rounded up to pages, at `offsets` from one base, the
    /// highest multiple of `align` from which all are free. All areas are made, or none. They have
    /// no guard pages and no memory. The base itself need not lie in the space. Bytes throughout.
    ///
    /// When there is no room, everything freed is given back first, and the
    /// [notifiers](Space::register_notifier) are asked, as for
    /// [`Raw::alloc`](vmalloc::Raw::alloc). Cost: see the [crate](crate).
    ///
    /// # Errors
    /// [`CongruentError`]; nothing is lost or changed.
    pub fn new(space: S, offsets: &[usize], sizes: &[usize], align: usize) -> Result<Self, CongruentError> {
        Self::make(space, offsets, sizes, align, true)
    }

    /// Reserves areas as [`new`](Self::new) does, but fails rather than wait for a purge or ask
    /// notifiers: for contexts that must not. Locks are still taken, for a bounded time.
    ///
    /// # Errors
    /// [`CongruentError`]; nothing is lost or changed.
    pub fn try_new(
        space: S,
        offsets: &[usize],
        sizes: &[usize],
        align: usize,
    ) -> Result<Self, CongruentError> {
        Self::make(space, offsets, sizes, align, false)
    }

    fn make(
        space: S,
        offsets: &[usize],
        sizes: &[usize],
        align: usize,
        may_block: bool,
    ) -> Result<Self, CongruentError> {
        let mut areas = Vec::new();
        areas.try_reserve_exact(sizes.len()).map_err(|_| CongruentError::Metadata)?;
        let (base, parts) = reserve(&space, offsets, sizes, align, may_block)?;
        areas.extend(parts.at(base));
        Ok(Self { base: (base << space.geometry().page_shift) as usize, areas, space })
    }

    /// Returns the base.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.base
    }

    /// Returns the address of the area at `index`, if there is one.
    #[must_use]
    pub fn area(&self, index: usize) -> Option<usize> {
        let area = self.areas.get(index)?;
        Some((area.start() << self.space.geometry().page_shift) as usize)
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// Gives the areas up without freeing them, which [`free`] does. Returns the base.
    #[must_use = "the areas are lost without their base"]
    pub fn leak(mut self) -> usize {
        self.areas = Vec::new();
        self.base
    }
}

impl<S: SpaceRef> Drop for CongruentAreas<S> {
    fn drop(&mut self) {
        let areas = mem::take(&mut self.areas);
        // SAFETY: this owned the areas, and is gone.
        if let Err((_, error)) = unsafe { self.space.raw().unreserve_all(areas.iter().copied(), AS_TAG) } {
            self.space.platform().fatal(&error);
        }
    }
}

/// Reserves congruent areas. Returns their base, in pages, and what was asked for.
fn reserve<'a, P: Platform>(
    space: &Space<P>,
    offsets: &'a [usize],
    sizes: &'a [usize],
    align: usize,
    may_block: bool,
) -> Result<(u64, Parts<'a>), CongruentError> {
    let geometry = space.geometry();
    let (lists, span) = (Lists::Bytes(offsets, sizes, geometry.page_shift), geometry.span);
    let parts = Parts::check(lists, align as u64)?;
    loop {
        let look = || parts.base(span, |fit: &Fit| space.place_for(fit).ok().map(|place| place.start()));
        let or_room = || if may_block { space.until_room(parts.pages(), look) } else { None };
        let base = look().or_else(or_room);
        let base = base.ok_or_else(|| parts.no_space(span, space.stats().largest_free_pages))?;
        match space.raw().reserve_all(parts.at(base), AS_TAG) {
            Ok(()) => return Ok((base, parts)),
            Err(FitError::Metadata) => return Err(CongruentError::Metadata),
            // Another thread was quicker.
            Err(_) => {}
        }
    }
}

/// Reserves congruent areas as [`CongruentAreas::new`] does, for callers that keep addresses.
/// Returns the base. [`free`] frees them.
///
/// # Errors
/// [`CongruentError`]; nothing is lost or changed.
#[doc(alias = "pcpu_get_vm_areas")]
pub fn alloc<P: Platform>(
    space: &Space<P>,
    offsets: &[usize],
    sizes: &[usize],
    align: usize,
) -> Result<usize, CongruentError> {
    let (base, _) = reserve(space, offsets, sizes, align, true)?;
    Ok((base << space.geometry().page_shift) as usize)
}

/// Frees the areas for which [`alloc`] returned `base`, with the same offsets and sizes, in any
/// order. Memory that was mapped there is unmapped by the next purge, and the addresses are flushed
/// before reuse.
///
/// # Safety
/// Nothing uses the areas any more, nor what is mapped there: their owner calls this, once.
///
/// # Errors
/// [`CongruentFreeError`] when one of the areas is not what it should be, or memory is short;
/// nothing is changed.
#[doc(alias = "pcpu_free_vm_areas")]
pub unsafe fn free<P: Platform>(
    space: &Space<P>,
    base: usize,
    offsets: &[usize],
    sizes: &[usize],
) -> Result<(), CongruentFreeError> {
    let shift = space.geometry().page_shift;
    let parts = Parts::check(Lists::Bytes(offsets, sizes, shift), 1 << shift)?;
    if base & ((1 << shift) - 1) != 0 {
        let cause = match space.find(base) {
            Some(_) => FreeError::Unaligned { addr: base },
            None => FreeError::NotAnArea { addr: base },
        };
        return Err(CongruentFreeError::Area { index: 0, cause });
    }
    let base = (base >> shift) as u64;
    parts.check_at(base)?;
    // SAFETY: by the caller's promise the areas are the caller's, and nothing uses them any more.
    let freed = unsafe { space.raw().unreserve_all(parts.at(base), AS_TAG) };
    freed.map_err(|(index, cause)| not_freed(space, &parts, base, index, cause))
}

/// Tells why the area at `index` was refused.
#[cold]
fn not_freed<P: Platform>(
    space: &Space<P>,
    parts: &Parts<'_>,
    base: u64,
    index: usize,
    cause: FreeError,
) -> CongruentFreeError {
    let shift = space.geometry().page_shift;
    let asked = parts.part(base, index);
    let found = asked.and_then(|asked| space.find((asked.start() << shift) as usize));
    let made = found.filter(|info| info.kind == Kind::Reserved && info.tag == Some(AS_TAG));
    let area = made.and_then(|info| PageRange::from_len((info.addr >> shift) as u64, info.pages));
    match (cause, asked, area) {
        (FreeError::WrongKind { .. }, Some(asked), Some(area)) if asked != area => {
            let [asked, area] = [asked, area].map(|pages| pages.times(1 << shift));
            CongruentFreeError::Size { index, asked, area }
        }
        _ => CongruentFreeError::Area { index, cause },
    }
}
