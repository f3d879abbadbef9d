//! Tenants: owners of areas that hand out parts of them.
//!
//! A tenant keeps areas of a space and hands out parts of them on its own terms: the space knows
//! neither which parts there are nor who has them. A purge collects the parts that were returned,
//! unmaps and flushes them with everything else that waits, and tells the tenant.
//!
//! ```text
//!              claim                                 the tenant's own business
//!   space ───────────────► an area of a tenant ──► parts: handed out, returned, …
//!     ▲                                              │ collect
//!     │ spare                                        ▼
//!     └──────── tenant ◄────────── flushed ─── the one unmap and flush of a purge
//!                                                    │ refused: tried again by later purges
//! ```
//!
//! Invariants:
//! - **TENANT-1** A part that was collected is in the purger until it is flushed. Meanwhile its
//!   tenant hands out nothing of its ranges.
//! - **TENANT-2** An area of the kind [`Kind::Tenant`](crate::Kind::Tenant) is one that a tenant
//!   [has](Tenant::has), but for the moment when it is made or given back.
//!
//! # Locks
//! The locks of a tenant come behind those of the nodes and before those of annotations. A tenant
//! calls the space only while it holds none, and from within its methods never.

use crate::PageRange;
use crate::platform::PlatformError;
use crate::wait::{LazyPages, clear};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;
use vmalloc_map::Violation;
use vmalloc_map::parts::{Once, try_box};

/// An owner of areas that hands out parts of them: see [`Space::add_tenant`](crate::Space::add_tenant).
///
/// No method may call the space. A purge may be under way when any of them is called, and holds no
/// lock that a tenant can take.
pub trait Tenant: Any + Send + Sync {
    /// Enters into `parts` what a purge is to unmap. It stays as it is until the purge tells that
    /// it was [flushed](Self::flushed).
    fn collect(&self, sweep: Sweep, parts: &mut Parts, tally: &mut Tally<'_>);

    /// Takes a part back whose `ranges` are unmapped, and flushed on every CPU. Its lazy pages are
    /// counted off.
    fn flushed(&self, part: &Part, ranges: &[PageRange], tally: &mut Tally<'_>);

    /// Takes a part back of which nothing is known to be unmapped, in the child of a fork: the next
    /// purge collects it again. Its lazy pages count as before.
    fn put_off(&self, part: &Part);

    /// Gives up to `most` [spare](TenantCounts::spare_areas) areas to `release`, each after the
    /// tenant has forgotten it; but none that has to be flushed before.
    fn spare(&self, most: u64, release: &mut dyn FnMut(PageRange));

    /// Returns the counts. O(1): every purge asks.
    fn counts(&self) -> TenantCounts;

    /// Returns the bytes of metadata.
    fn metadata_bytes(&self) -> u64;

    /// Returns whether an area of this tenant begins at `page`.
    fn has(&self, page: u64) -> bool;

    /// Calls `see` for each range of `area` that is handed out, in address order. If the area is
    /// another tenant's, there is none.
    fn live(&self, area: PageRange, see: &mut dyn FnMut(PageRange));

    /// Takes all locks of the tenant, for a fork.
    fn lock(&self);

    /// Releases all locks.
    ///
    /// # Safety
    /// The calling thread, or the one it was forked from, has called [`lock`](Self::lock).
    unsafe fn unlock(&self);

    /// Ends what threads of the parent were doing, in the child of a fork. The caller is the only
    /// thread there is.
    fn repair(&self, tally: &mut Tally<'_>);

    /// Checks the invariants of the tenant, while no thread is between two of its locks.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    fn verify(&self) -> Result<(), Violation>;

    /// Returns the tenant as a value of any type, to find one of a known type among all
    /// tenants.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// How much a purge takes of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// Parts that have to be flushed before they can be used again.
    Due,
    /// All parts that are not handed out and may still be mapped: afterwards no CPU reaches
    /// anything that was returned before.
    Everything,
}

/// The counts of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TenantCounts {
    /// Areas that it has.
    pub areas: u64,
    /// Areas made so far.
    pub made: u64,
    /// Areas given back to the map so far.
    pub freed: u64,
    /// Areas that are lazy as a whole: nothing of them is handed out, and a purge has to flush
    /// them.
    pub lazy_areas: u64,
    /// Areas that are not lazy, and of which nothing is handed out.
    pub spare_areas: u64,
    /// Pages of these.
    pub spare_pages: u64,
}

/// The pages that a tenant makes lazy during a call. When the call has ended, the space has them
/// drained if they are too many.
pub struct Tally<'a> {
    pub(crate) lazy: &'a LazyPages,
    /// The most pages of an area that was counted; `None` if none was.
    pub(crate) most: Option<u64>,
}

impl Tally<'_> {
    /// Counts an area whose `pages` pages are lazy from now on, or 0 for one that is spare. The
    /// caller holds the lock under which a purge would find it.
    pub fn add(&mut self, pages: u64) {
        self.lazy.of_none().add(pages);
        self.most = self.most.max(Some(pages));
    }
}

/// A part of an area that a purge unmaps: all its ranges, or none.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first page of the area.
    pub area: u64,
    /// How many of its pages the tenant has counted as lazy.
    pub lazy_pages: u64,
    /// The number of the tenant.
    tenant: usize,
    /// How many of the ranges are its own.
    ranges: usize,
}

/// The parts that a purge has collected.
#[derive(Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    ranges: Vec<PageRange>,
    /// True if there was no memory to note a part.
    is_short: bool,
    /// The number of the tenant that enters parts.
    tenant: usize,
}

/// The result of unmapping parts one by one.
#[derive(Default)]
pub(super) struct Sifted {
    /// The platform's error for the last part that it refused.
    pub(super) refusal: Option<PlatformError>,
    /// True if memory sufficed to move all parts that were to move.
    pub(super) is_complete: bool,
    /// Those that were lazy areas among the parts that moved, and their pages.
    pub(super) lazy: (u64, u64),
}

impl Parts {
    /// Enters a part of the area at page `area`, of which `lazy_pages` are counted as lazy, with
    /// its ranges in address order. Returns false, and enters nothing, where there is no
    /// [room](Self::make_room) for it.
    pub fn add(&mut self, area: u64, lazy_pages: u64, ranges: impl IntoIterator<Item = PageRange>) -> bool {
        let before = self.ranges.len();
        let fits = self.parts.len() < self.parts.capacity()
            && ranges.into_iter().all(|range| self.add_range(before, range));
        if fits {
            let ranges = self.ranges.len() - before;
            self.parts.push(Part { area, lazy_pages, tenant: self.tenant, ranges });
        } else {
            self.ranges.truncate(before);
        }
        self.is_short |= !fits;
        fits
    }

    /// Makes room for a part of up to `ranges` ranges, if the heap has memory: a tenant
    /// [adds](Self::add) it under a lock, where the heap is not called.
    pub fn make_room(&mut self, ranges: usize) {
        self.is_short |= self.parts.try_reserve(1).is_err() || self.ranges.try_reserve(ranges).is_err();
    }

    /// Notes one range, joined to the last one behind `from` if that ends there. Returns false
    /// where there is no room.
    fn add_range(&mut self, from: usize, range: PageRange) -> bool {
        if let Some(last) = self.ranges[from..].last_mut().filter(|last| last.end() == range.start()) {
            *last = PageRange::of(last.start(), range.end());
            return true;
        }
        let fits = self.ranges.len() < self.ranges.capacity();
        if fits {
            self.ranges.push(range);
        }
        fits
    }

    /// Has all tenants enter their parts, one after the other.
    pub(crate) fn collect(&mut self, tenants: &Tenants, sweep: Sweep, tally: &mut Tally<'_>) {
        self.is_short = false;
        for (number, tenant) in tenants.iter().enumerate() {
            self.tenant = number;
            tenant.collect(sweep, self, tally);
        }
    }

    /// Calls `act` for each part, with its tenant and its ranges, and forgets all.
    pub(crate) fn take(&mut self, tenants: &Tenants, mut act: impl FnMut(&dyn Tenant, &Part, &[PageRange])) {
        let mut ranges = &self.ranges[..];
        for part in &self.parts {
            let own;
            (own, ranges) = ranges.split_at(part.ranges);
            if let Some(tenant) = tenants.iter().nth(part.tenant) {
                act(&**tenant, part, own);
            }
        }
        clear(&mut self.parts, 0);
        clear(&mut self.ranges, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.parts.len() as u64
    }

    /// Returns the ranges of all parts.
    pub(super) fn ranges(&self) -> &[PageRange] {
        &self.ranges
    }

    /// Returns whether a part was left out that was to be flushed, for want of memory.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns how many parts are lazy areas, and the pages of these.
    pub(crate) fn lazy(&self) -> (u64, u64) {
        let lazy = self.parts.iter().filter(|part| part.lazy_pages != 0);
        lazy.fold((0, 0), |(areas, pages), part| (areas + 1, pages + part.lazy_pages))
    }

    /// Moves the part at `index`, whose ranges are `own`, to another set. Returns false when memory
    /// is short.
    fn hand_over(&mut self, index: usize, own: Range<usize>, to: &mut Self) -> bool {
        let fits = to.parts.try_reserve(1).is_ok() && to.ranges.try_reserve(own.len()).is_ok();
        if fits {
            to.ranges.extend(self.ranges.drain(own));
            to.parts.push(self.parts.remove(index));
        }
        fits
    }

    /// Unmaps each part by itself, and moves those to `to` whose result `is_wanted`: the refused
    /// ones out of a purge, or the others back into one.
    #[cold]
    pub(super) fn sift(
        &mut self,
        to: &mut Self,
        unmap: impl Fn(&[PageRange]) -> Result<(), PlatformError>,
        is_wanted: fn(&Result<(), PlatformError>) -> bool,
    ) -> Sifted {
        let mut sifted = Sifted { is_complete: true, ..Sifted::default() };
        let mut end = self.ranges.len();
        for index in (0..self.parts.len()).rev() {
            let Part { ranges, lazy_pages, .. } = self.parts[index];
            let own = end - ranges..end;
            end = own.start;
            let unmapped = unmap(&self.ranges[own.clone()]);
            sifted.refusal = unmapped.err().or(sifted.refusal);
            if is_wanted(&unmapped) {
                let has_moved = self.hand_over(index, own, to);
                sifted.is_complete &= has_moved;
                if has_moved && lazy_pages != 0 {
                    sifted.lazy = (sifted.lazy.0 + 1, sifted.lazy.1 + lazy_pages);
                }
            }
        }
        sifted
    }
}

/// The tenants of a space. They stay for its life, so any thread reads the list without a lock.
pub(crate) struct Tenants {
    first: Once<Link>,
}

struct Link {
    tenant: Arc<dyn Tenant>,
    /// Those behind it.
    others: Tenants,
}

impl Tenants {
    pub(crate) const fn new() -> Self {
        Self { first: Once::none() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tenant>> {
        let links = core::iter::successors(self.first.get(), |link| link.others.first.get());
        links.map(|link| &link.tenant)
    }

    /// Adds a tenant at the end. The caller holds the purger. Returns false when memory is short.
    pub(crate) fn add(&self, tenant: Arc<dyn Tenant>) -> bool {
        let mut end = &self.first;
        while let Some(link) = end.get() {
            end = &link.others.first;
        }
        end.get_or_try_init(|| try_box(|| Link { tenant, others: Self::new() })).is_ok()
    }

    /// Returns the sum of the counts of all.
    pub(crate) fn counts(&self) -> TenantCounts {
        self.iter().map(|tenant| tenant.counts()).fold(TenantCounts::default(), |sum, one| TenantCounts {
            areas: sum.areas + one.areas,
            made: sum.made + one.made,
            freed: sum.freed + one.freed,
            lazy_areas: sum.lazy_areas + one.lazy_areas,
            spare_areas: sum.spare_areas + one.spare_areas,
            spare_pages: sum.spare_pages + one.spare_pages,
        })
    }
}
