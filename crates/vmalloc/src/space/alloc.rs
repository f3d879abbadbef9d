//! Handing areas out: from this CPU's node, else from the area map, else what a purge brings back.

use super::annotations::Annotation;
use super::drain::Drain;
use super::node::Node;
use super::pools::Pools;
use super::request::{Blocking, Checked, Content, PageSize};
use super::{Kind, Request, Space};
use crate::addr::PageRange;
use crate::area_map::{AreaMap, LEAF_SHIFT};
use crate::error::{AllocError, Unbacked};
use crate::platform::{DirectMemory, Platform, PlatformError, Protection};
use crate::request::{Fit, Policy};
use crate::sync::{Mutant, is, size};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

/// Pages that a node takes from the map in one go, for areas of one size: a sixteenth of a leaf at least stays for others,
/// and what a node holds without need is less than it frees before a drain.
const RUN_PAGES: u64 = size(64, 6);
/// Areas of such a run: what a lock may be held for.
const RUN_AREAS: u64 = size(32, 2);
/// How often everything freed is given back before an allocation is refused, as long as anything is.
pub(super) const ROUNDS: usize = 8;
/// How often in a row others may be quicker to take what was given back, before one who needs it gives up.
const RACES: usize = 64;

/// What is behind an area's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// The memory of the area that was freed here before.
    Kept,
    /// Nothing yet.
    None,
}

impl<P: Platform> Space<P> {
    /// Allocates memory; its address. O(1) when an area of the size waits in this CPU's node, without a call of the platform if
    /// that kept its memory; else O(log n) and one call. When addresses or memory run out it purges, waiting for a purge
    /// under way, asks the [notifiers](Self::register_notifier), and tries again.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> {
        // Taken apart, so that a request that is made where it is used never gets as far as memory.
        match request.plain() {
            Some((bytes, align)) => match self.reuse(bytes, align) {
                0 => self.alloc_plain(bytes, align),
                addr => Ok(addr),
            },
            None => self.alloc_far(request),
        }
    }

    #[inline(never)]
    fn alloc_plain(&self, bytes: usize, align: usize) -> Result<usize, AllocError> {
        self.alloc_far(&Request::new(bytes).align(align))
    }

    #[inline(never)]
    fn alloc_far(&self, request: &Request) -> Result<usize, AllocError> {
        let mut checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        if checked.size == PageSize::Huge {
            self.fit_huge(&mut checked);
        }
        if checked.blocking == Blocking::Allowed {
            self.balance();
        }
        let (area, backing) = self.obtain(&checked, Backing::Kept)?;
        let annotation = checked.annotation(area, self.shift, Kind::Vmalloc, request.tag);
        self.hand_out(area, annotation, backing)?;
        match backing {
            Backing::None => self.back_with(area, &checked, annotation, request),
            Backing::Kept => {
                self.clean(area, &checked, request);
                Ok(self.addr(area.start()))
            }
        }
    }

    /// Clears an area just obtained whose memory may hold anything, if that was asked for.
    #[inline]
    pub(super) fn clean(&self, area: PageRange, checked: &Checked, request: &Request) {
        if request.content == Content::Zeros {
            // SAFETY: the area was just taken for this caller alone, and is mapped.
            unsafe { self.platform.zero(self.payload(area, checked.guard_pages)) };
        }
    }

    /// Reserves addresses without memory; the first. For mappings of one's own, I/O addresses, and the like. Cost as
    /// [`alloc`](Self::alloc), without calls of the platform.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn reserve(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = request.check(self.shift, self.config.guard, self.config.policy)?;
        if checked.blocking == Blocking::Allowed {
            self.balance();
        }
        let (area, backing) = self.obtain(&checked, Backing::None)?;
        self.hand_out(area, checked.annotation(area, self.shift, Kind::Reserved, request.tag), backing)?;
        Ok(self.addr(area.start()))
    }

    /// Lets an allocation help where freeing has fallen far behind.
    pub(super) fn balance(&self) {
        // Relaxed: a hint; what it leads to takes locks.
        if self.lazy_pages.0.load(Ordering::Relaxed) > self.lazy_most {
            self.purge_if_idle();
        }
        if self.deferred.is_unseen() {
            self.see_to_deferred();
        }
    }

    /// Claims an area, with the memory that it kept if `wish` allows that.
    #[inline]
    fn obtain(&self, checked: &Checked, wish: Backing) -> Result<(PageRange, Backing), AllocError> {
        let fit = &checked.fit;
        if (fit.lowest_order().is_some() || self.grows_down(fit)) && Pools::takes(fit.pages()) {
            if self.possible(wish, checked) == Backing::Kept
                && checked.size == PageSize::Base
                && let Some(area) = self.take_kept(fit)
            {
                return Ok((area, Backing::Kept));
            }
            let (_, mut node) = self.node();
            if let Some(start) = node.pools.take(fit.pages(), fit.alignment()) {
                return Ok((PageRange::of(start, start + fit.pages()), Backing::None));
            }
        }
        let claimed = match checked.blocking {
            Blocking::Allowed => self.claim(checked.fit),
            Blocking::Forbidden => self.try_claim(&checked.fit),
        };
        claimed.map(|area| (area, Backing::None))
    }

    /// Aligns a request that is large enough for huge pages to one, if there is such a place.
    #[cold]
    fn fit_huge(&self, checked: &mut Checked) {
        let order = self.geometry.huge_order.filter(|&order| {
            (checked.fit.pages() - checked.guard_pages) >> order != 0 && checked.fit.alignment() < 1 << order
        });
        let Some(order) = order else { return };
        if let Ok(aligned) = checked.fit.align(1 << order)
            && self.map().has_room(&aligned)
        {
            checked.fit = aligned;
        }
    }

    /// Only areas with the usual guard are cached: every area of a size can then stand in for every other.
    #[inline]
    pub(super) fn possible(&self, wish: Backing, checked: &Checked) -> Backing {
        if self.caches && checked.guard_pages == self.guard_pages { wish } else { Backing::None }
    }

    /// Claims an area of the map, not mapped yet. When there is no room for it, everything freed is given back first.
    pub(super) fn claim(&self, mut fit: Fit) -> Result<PageRange, AllocError> {
        if let Policy::Random { seed } = fit.placement() {
            fit = fit.policy(Policy::Random { seed: seed ^ self.platform.entropy() });
        }
        match self.try_claim(&fit) {
            Err(AllocError::NoSpace(mut refusal)) => {
                let claimed = self.until_room(fit.pages(), || match self.try_claim(&fit) {
                    Err(AllocError::NoSpace(again)) => {
                        refusal = again;
                        None
                    }
                    result => Some(result),
                });
                claimed.unwrap_or(Err(refusal.into()))
            }
            result => result,
        }
    }

    /// Purges, and then asks the notifiers for room for `pages` pages, for as long as either brings anything and `retry` has no result.
    #[cold]
    pub(super) fn until_room<T>(&self, pages: u64, mut retry: impl FnMut() -> Option<T>) -> Option<T> {
        let _in_need = self.need.0.enter();
        let mut result = self.after_purges(&mut retry);
        for _ in 0..ROUNDS {
            if result.is_some() || self.notify(pages) == 0 {
                break;
            }
            result = self.after_purges(&mut retry);
        }
        result
    }

    /// Purges until `retry` has a result, or nothing is left that could be given back.
    fn after_purges<T>(&self, retry: &mut impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..RACES {
            // Waits for a purge under way: what that gives back counts for this allocation as well.
            let purge = self.purge_with(Drain::ALL);
            if let Some(found) = retry() {
                return Some(found);
            }
            match purge {
                // Others took it first.
                Ok(done) if done.given > 0 => continue,
                // The last look would hide that these protocols are broken.
                Ok(_) if !is(Mutant::NoWait) && !is(Mutant::Hoard) => {}
                // Less is free than could be, for the platform fails.
                _ => return None,
            }
            // That nothing was given back does not say that nothing waits: others may have freed it behind the purge. While nobody
            // purges, what is freed is in a node.
            let _nobody_purges = self.purger.0.lock();
            let found = retry();
            if found.is_some() || !self.is_anything_kept() {
                return found;
            }
        }
        None
    }

    fn is_anything_kept(&self) -> bool {
        self.deferred.areas() != 0
            || self.nodes.iter().any(|node| {
                let node = node.0.lock();
                !(node.lazy.is_empty() && node.cached.is_empty() && node.pools.is_empty())
            })
    }

    /// Claims an area of the map: it is the caller's, but not busy before it is
    /// [handed out](Self::hand_out).
    pub(super) fn try_claim(&self, fit: &Fit) -> Result<PageRange, AllocError> {
        let (id, mut node) = self.node();
        let mut map = self.map();
        let area = self.place(id, &mut node, &mut map, fit)?;
        let leaf = map.leaf(area.start());
        leaf.set_owner_node(id);
        leaf.withhold(area.start());
        let others_wait = self.need.0.is_any() && !is(Mutant::Hoard);
        let more = if fit.lowest_order() == Some(0) && area.len() <= RUN_PAGES && !others_wait {
            map.alloc_more(area, (RUN_PAGES / area.len()).min(RUN_AREAS))
        } else {
            0
        };
        // Downwards, so that the lowest is taken first.
        for number in (1..=more).rev() {
            let start = area.start() + number * area.len();
            if !node.pools.put(PageRange::of(start, start + area.len()))
                && let Err(damage) = map.release(start)
            {
                self.platform.fatal(&damage);
            }
        }
        Ok(area)
    }

    /// The lowest place, but in no leaf where another node's areas are, if that can be had: two CPUs that flip bits of one leaf
    /// wait for each other's cache lines. A space with one busy node never sees the difference.
    #[inline]
    fn place(
        &self,
        id: usize,
        node: &mut Node,
        map: &mut AreaMap,
        fit: &Fit,
    ) -> Result<PageRange, AllocError> {
        let is_small =
            fit.pages() <= RUN_PAGES && fit.lowest_order().is_some_and(|order| order <= LEAF_SHIFT);
        if let Some(spot) = node.spot.filter(|_| is_small) {
            match fit.within(spot.start(), spot.end()).map(|fit| map.alloc(&fit)) {
                Ok(Ok(area)) => return Ok(area),
                _ => node.spot = None,
            }
        }
        let area = map.alloc(fit)?;
        let is_free = map.leaf(area.start()).owner_node().is_none_or(|owner_node| owner_node == id);
        if is_free || !is_small { Ok(area) } else { self.move_apart(node, map, fit, area) }
    }

    /// The same area in a leaf of its own, if there is one free.
    #[inline(never)]
    fn move_apart(
        &self,
        node: &mut Node,
        map: &mut AreaMap,
        fit: &Fit,
        area: PageRange,
    ) -> Result<PageRange, AllocError> {
        let Ok(spot) = map.alloc(&Fit::plain(1 << LEAF_SHIFT, LEAF_SHIFT)) else { return Ok(area) };
        if let Err(damage) = map.free(area.start()).and_then(|_| map.free(spot.start())) {
            self.platform.fatal(&damage);
        }
        node.spot = Some(spot);
        map.alloc(&fit.within(spot.start(), spot.end())?)
    }

    /// Makes a claimed area busy, with its annotation. When memory is short the area is given back.
    ///
    /// This is the one place where areas become busy, but for [`reuse`](Self::reuse), whose areas have
    /// no annotation. So a busy area's annotation is in its table, and nobody finds an area without it.
    #[inline]
    pub(super) fn hand_out(
        &self,
        area: PageRange,
        annotation: Annotation,
        backing: Backing,
    ) -> Result<(), AllocError> {
        if annotation.is_plain(self.config.guard) {
            self.make_busy(area.start());
            return Ok(());
        }
        self.hand_out_annotated(area, annotation, backing)
    }

    #[inline(never)]
    fn hand_out_annotated(
        &self,
        area: PageRange,
        annotation: Annotation,
        backing: Backing,
    ) -> Result<(), AllocError> {
        if is(Mutant::LateNote) {
            self.make_busy(area.start());
        }
        if self.annotate(area, annotation) {
            return Ok(());
        }
        match backing {
            Backing::None => self.unclaim(area),
            // Where an area can neither be described nor be given back, it is handed out: it lacks its tag, but is not lost.
            Backing::Kept if !self.discard(area) => {
                self.make_busy(area.start());
                return Ok(());
            }
            Backing::Kept => {}
        }
        Err(AllocError::Metadata)
    }

    /// Enters the annotation of a claimed area and makes the area busy, under the lock of the annotation's table.
    /// Returns false, and changes nothing, when memory is short.
    pub(super) fn annotate(&self, area: PageRange, annotation: Annotation) -> bool {
        let start = area.start();
        self.annotations.enter(area, annotation, || {
            // The mark changes under the table's lock, as when the last annotation beside it goes.
            self.with_leaf(start, |leaf| leaf.annotation_entered(start));
            if !is(Mutant::LateNote) {
                self.make_busy(start);
            }
        })
    }

    fn make_busy(&self, start: u64) {
        self.with_leaf(start, |leaf| {
            if !leaf.make_busy(start) {
                self.platform.fatal(&"a claimed area is busy");
            }
        });
    }

    /// As [`back`](Self::back), with the content asked for.
    pub(super) fn back_with(
        &self,
        area: PageRange,
        checked: &Checked,
        annotation: Annotation,
        request: &Request,
    ) -> Result<usize, AllocError> {
        let addr = self.back(area, checked, annotation)?;
        if !self.geometry.maps_zeroed {
            let start = (addr >> self.shift) as u64;
            self.clean(PageRange::of(start, start + area.len()), checked, request);
        }
        Ok(addr)
    }

    /// Puts pages behind an area just obtained. When there are none, everything cached is given back first.
    #[inline]
    pub(super) fn back(
        &self,
        area: PageRange,
        checked: &Checked,
        annotation: Annotation,
    ) -> Result<usize, AllocError> {
        match self.map_memory(area, checked) {
            Ok(()) => Ok(self.addr(area.start())),
            Err(cause) => self.back_in_need(area, checked, annotation, cause),
        }
    }

    /// Purges and tries again, as long as that brings anything: while a purge waits for other CPUs they go on, and may take what the one
    /// before gave back.
    #[cold]
    fn back_in_need(
        &self,
        area: PageRange,
        checked: &Checked,
        annotation: Annotation,
        mut cause: PlatformError,
    ) -> Result<usize, AllocError> {
        self.give_up(area, annotation);
        let rounds = if checked.blocking == Blocking::Forbidden { 0 } else { ROUNDS };
        for _ in 0..rounds {
            let Ok(done) = self.purge_with(Drain::ALL) else { break };
            let area = self.claim(checked.fit)?;
            self.hand_out(area, annotation, Backing::None)?;
            match self.map_memory(area, checked) {
                Ok(()) => return Ok(self.addr(area.start())),
                Err(again) => cause = again,
            }
            self.give_up(area, annotation);
            if done.given == 0 {
                break;
            }
        }
        Err(self.unbacked(&checked.fit, cause))
    }

    #[cold]
    pub(super) fn unbacked(&self, fit: &Fit, cause: PlatformError) -> AllocError {
        let (pages, align) = (fit.pages(), fit.alignment());
        let within = fit.limits().unwrap_or(self.geometry.span);
        let largest = self.map().largest_free();
        Unbacked { pages, align, within, largest, cause }.into()
    }

    fn map_memory(&self, area: PageRange, checked: &Checked) -> Result<(), PlatformError> {
        let payload = self.payload(area, checked.guard_pages);
        // SAFETY: the area was obtained for this caller alone, without memory.
        unsafe {
            match checked.size {
                PageSize::Base => self.platform.map(payload, Protection::ReadWrite),
                PageSize::Huge => self.platform.map_huge(payload, Protection::ReadWrite),
            }
        }
    }

    /// Frees a busy area that got no memory, and its annotation. Nothing was mapped, so there is nothing to
    /// flush.
    #[cold]
    pub(super) fn give_up(&self, area: PageRange, annotation: Annotation) {
        let page = area.start();
        let mut table = (!annotation.is_plain(self.config.guard)).then(|| self.annotations.lock(page));
        let mut map = self.map();
        self.sure(map.retire(page));
        if let Some(table) = &mut table
            && self.annotations.remove(table, page)
        {
            map.leaf(page).annotations_left(page);
        }
        self.sure(map.release(page));
    }

    /// Frees a claimed area that was never mapped, nor handed out.
    #[cold]
    pub(super) fn unclaim(&self, area: PageRange) {
        self.sure(self.map().release(area.start()));
    }

    /// The area's pages without its guard.
    #[inline]
    pub(super) fn payload(&self, area: PageRange, guard_pages: u64) -> PageRange {
        PageRange::of(area.start(), area.end() - guard_pages)
    }
}

impl<P: DirectMemory> Space<P> {
    /// Allocates `bytes` bytes, of any content. Cost as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes)).map(|addr| self.pointer(addr))
    }

    /// Allocates `bytes` bytes of any content, in huge pages where it is large enough and the machine has some, else in base pages. Cost as
    /// [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vmalloc_huge(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes).huge()).map(|addr| self.pointer(addr))
    }

    /// Allocates `bytes` bytes of zeros. Cost as [`alloc`](Self::alloc).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn vzalloc(&self, bytes: usize) -> Result<NonNull<u8>, AllocError> {
        self.alloc(&Request::new(bytes).zeroed()).map(|addr| self.pointer(addr))
    }

    pub(super) fn pointer(&self, addr: usize) -> NonNull<u8> {
        match NonNull::new(core::ptr::with_exposed_provenance_mut(addr)) {
            Some(pointer) => pointer,
            None => self.platform.fatal(&"an area at address zero"),
        }
    }
}
