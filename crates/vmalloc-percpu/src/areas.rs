//! Congruent areas of a space, in bytes.

use crate::error::{CongruentError, CongruentFreeError};
use crate::parts::{Lists, Parts};
use heap::vec::Vec;
use vmalloc::{
    AllocError, Fit, FreeError, Kind, PageRange, Platform, Request, Reservation, Space, SpaceRef, Tag,
};

/// The tag of the areas, for reports.
pub const TAG: &str = "percpu";

/// Owned areas at fixed distances from one base, which is their [`addr`](Self::addr): addresses,
/// for pages that the caller maps there.
#[derive(Debug)]
pub struct CongruentAreas<S: SpaceRef> {
    base: usize,
    areas: Vec<Reservation<S>>,
}

impl<S: SpaceRef + Clone> CongruentAreas<S> {
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
        Self::make(space, offsets, sizes, align, |space, pages, look| space.until_room(pages, look))
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
        Self::make(space, offsets, sizes, align, |_, _, _| None)
    }

    /// Reserves areas. Where no place is free, `or_room` looks again after it has made room.
    fn make(
        space: S,
        offsets: &[usize],
        sizes: &[usize],
        align: usize,
        or_room: impl Fn(&S, u64, &dyn Fn() -> Option<u64>) -> Option<u64>,
    ) -> Result<Self, CongruentError> {
        let geometry = space.geometry();
        let lists = Lists::Bytes(offsets, sizes, geometry.page_shift);
        let (parts, span, shift) = (Parts::check(lists, align as u64)?, geometry.span, geometry.page_shift);
        loop {
            let look = || {
                let place = |fit: &Fit| space.place_for(fit).ok().map(|place| place.start());
                parts.base(span, place)
            };
            let base = look().or_else(|| or_room(&space, parts.pages(), &look));
            let base = base.ok_or_else(|| parts.no_space(span, space.stats().largest_free_pages))?;
            if let Some(areas) = claim(&space, &parts, base)? {
                return Ok(Self { base: (base << shift) as usize, areas });
            }
        }
    }
}

impl<S: SpaceRef> CongruentAreas<S> {
    /// Returns the base.
    #[must_use]
    pub fn addr(&self) -> usize {
        self.base
    }

    /// Returns the address of the area at `index`, if there is one.
    #[must_use]
    pub fn area(&self, index: usize) -> Option<usize> {
        self.areas.get(index).map(Reservation::addr)
    }

    /// Returns the reference to the space.
    pub fn space(&self) -> &S {
        self.areas[0].space()
    }

    /// Gives the areas up without freeing them, which [`free`] does. Returns the base.
    #[must_use = "the areas are lost without their base"]
    pub fn leak(self) -> usize {
        self.areas.into_iter().for_each(|area| _ = area.leak());
        self.base
    }
}

/// Reserves `parts` at page `base`. Returns `None`, with nothing reserved, where another thread was
/// quicker.
fn claim<S: SpaceRef + Clone>(
    space: &S,
    parts: &Parts<'_>,
    base: u64,
) -> Result<Option<Vec<Reservation<S>>>, CongruentError> {
    let (mut areas, shift) = (Vec::new(), space.geometry().page_shift);
    areas.try_reserve_exact(parts.len()).map_err(|_| CongruentError::Metadata)?;
    for part in parts.at(base) {
        let [start, end, bytes] =
            [part.start(), part.end(), part.len()].map(|pages| (pages << shift) as usize);
        let request =
            Request::new(bytes).without_guard().within(start, end).no_block().tag(const { Tag::new(TAG) });
        match Reservation::new(space.clone(), &request) {
            Ok(area) => areas.push(area),
            Err(AllocError::NoSpace(_)) => return Ok(None),
            Err(_) => return Err(CongruentError::Metadata),
        }
    }
    Ok(Some(areas))
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
    CongruentAreas::new(space, offsets, sizes, align).map(CongruentAreas::leak)
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
    for index in 0..parts.len() {
        check_made(space, index, parts.part(base, index).ok_or(CongruentError::Overflow { index })?)?;
    }
    // SAFETY: by the caller's promise the areas are the caller's, and nothing uses them any more.
    let freed = unsafe { space.raw().unreserve_all(parts.at(base)) };
    freed.map_err(|(index, cause)| CongruentFreeError::Area { index, cause })
}

/// Checks that the area at `asked`, if there is one, was made as one of a group.
fn check_made<P: Platform>(
    space: &Space<P>,
    index: usize,
    asked: PageRange,
) -> Result<(), CongruentFreeError> {
    let (page, shift) = (asked.start(), space.geometry().page_shift);
    let refuse = |cause| Err(CongruentFreeError::Area { index, cause });
    // The free itself tells why there is none.
    let addr = (page << shift) as usize;
    let Some(info) = space.find(addr) else { return Ok(()) };
    if info.addr != addr {
        return refuse(FreeError::Interior { addr, start: info.addr });
    }
    if info.kind != Kind::Reserved || info.tag != Some(const { Tag::new(TAG) }) {
        return refuse(FreeError::WrongKind { addr });
    }
    match PageRange::from_len(page, info.pages) {
        Some(area) if area != asked => Err(CongruentFreeError::Size { index, asked, area }),
        _ => Ok(()),
    }
}
