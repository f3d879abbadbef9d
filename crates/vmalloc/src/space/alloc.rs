//! Allocation: from this CPU's node, else from the area map, else what a purge brings back.

use super::claim::ROUNDS;
use super::request::{Checked, Content, PageSize};
use super::told::URGENT;
use super::{Raw, Request, Space};
use crate::Fit;
use crate::PageRange;
use crate::areas::{Annotation, Areas, Blocking, Kind};
use crate::cache::{SizeStacks, Wanted};
use crate::platform::{Platform, PlatformError, Protection};
use crate::purge::PurgePlan;
use crate::{AllocError, AreaError, RequestError, Unbacked};
use core::sync::atomic::Ordering::Relaxed;

/// The memory behind an area's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// The memory of the area that was freed here before.
    Cached,
    /// Nothing yet.
    None,
}

impl<P: Platform> Raw<'_, P> {
    /// Allocates memory of any content, or of zeros with [`Request::zeroed`]. Returns its address,
    /// a multiple of the page size.
    ///
    /// O(1) when an area of the size waits in this CPU's node, without a call of the platform if
    /// that kept its memory; else O(log n) and one call. When addresses or memory run out it
    /// purges, waiting for a purge under way, asks the [notifiers](Space::register_notifier), and
    /// tries again. Where purges are far behind, it waits for the one under way as well.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    #[doc(alias = "vmalloc")]
    #[doc(alias = "vzalloc")]
    #[doc(alias = "vmalloc_huge")]
    #[doc(alias = "vmalloc_node")]
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> {
        // Taken apart, so that a request that is made where it is used never gets as far as memory.
        match request.plain() {
            Some((bytes, align)) => match self.reuse(bytes, align) {
                0 => self.alloc_plain(bytes, align),
                addr => Ok(addr),
            },
            None => self.alloc_slow(request),
        }
    }

    /// Allocates memory in the common case: an area of the size waits in this CPU's node. Returns
    /// its address, or 0 in any other case: then [`alloc`](Self::alloc) does it, or tells why not.
    /// This becomes a part of its caller, for functions that are the last frame before the program.
    #[inline(always)]
    #[doc(hidden)]
    pub fn alloc_from_node(&self, bytes: usize, align: usize) -> usize {
        self.reuse_here(bytes, align)
    }

    /// Reserves addresses without memory. Returns the first. For mappings of one's own, I/O
    /// addresses, and the like. Cost as [`alloc`](Self::alloc), without calls of the platform.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is lost or changed.
    pub fn reserve(&self, request: &Request) -> Result<usize, AllocError> {
        let checked = self.check(request)?;
        if checked.blocking == Blocking::Allowed {
            self.balance();
        }
        let (area, backing) = self.obtain(&checked, request, Backing::None)?;
        self.hand_out(area, checked.annotation(Kind::Reserved, request.tag, request.cookie), backing)?;
        Ok(self.addr(area.start()))
    }

    /// Sets the [cookie](Request::cookie) of the area at `addr`, of any kind. O(1). The first of an
    /// area that had neither tag nor cookie takes memory to note it.
    ///
    /// # Safety
    /// The caller owns the area: so an owner may rely on the cookies of its areas, as on pointers.
    ///
    /// # Errors
    /// [`AreaError`] when no such area starts at `addr`, or memory is short; nothing is changed.
    pub unsafe fn set_cookie(&self, addr: usize, cookie: u64) -> Result<(), AreaError> {
        let page = self.page(self.area_starting(addr)?.addr)?;
        if self.areas.set_cookie(page, cookie) { Ok(()) } else { Err(AllocError::Metadata.into()) }
    }
}

impl<P: Platform> Space<P> {
    #[inline(never)]
    fn alloc_plain(&self, bytes: usize, align: usize) -> Result<usize, AllocError> {
        self.alloc_slow(&Request::new(bytes).align(align))
    }

    #[inline(never)]
    fn alloc_slow(&self, request: &Request) -> Result<usize, AllocError> {
        let mut checked = self.check(request)?;
        let pages = checked.fit.pages();
        if checked.size == PageSize::Huge || pages >= self.aligned_from {
            self.fit_huge(&mut checked);
        }
        if checked.blocking == Blocking::Allowed {
            self.balance();
        }
        let (area, backing) = self.obtain(&checked, request, Backing::Cached)?;
        let annotation = checked.annotation(Kind::Vmalloc, request.tag, request.cookie);
        self.hand_out(area, annotation, backing)?;
        match backing {
            Backing::None => self.back_with(area, &checked, annotation, request),
            Backing::Cached => {
                self.clean(area, &checked, request);
                Ok(self.addr(area.start()))
            }
        }
    }

    /// Checks a request against the machine's pages and this space.
    pub(super) fn check(&self, request: &Request) -> Result<Checked, AllocError> {
        if let Some(node) = request.node.filter(|&node| node >= self.cache.nodes.len()) {
            let nodes = self.cache.nodes.len();
            return Err(RequestError::NoSuchNode { node, nodes }.into());
        }
        Ok(request.check(self.shift(), self.options.guard, self.options.policy)?)
    }

    /// Clears an area just obtained whose memory may hold anything, if that was asked for.
    #[inline]
    fn clean(&self, area: PageRange, checked: &Checked, request: &Request) {
        if request.content == Content::Zeros {
            // SAFETY: the area was just taken for this caller alone, and is mapped.
            unsafe { self.platform.zero(payload(area, checked.guard_pages)) };
        }
    }

    /// Lets an allocation help where freeing has fallen behind, and wait where it has fallen far
    /// behind.
    #[inline]
    pub(super) fn balance(&self) {
        if self.cache.lazy.level() > self.cache.lazy.limit() {
            self.purge_behind();
        }
        if self.told.load(Relaxed) == URGENT {
            self.trigger_drain(0);
        }
    }

    /// Claims an area, with the memory that it kept if `wish` allows that.
    #[inline]
    fn obtain(
        &self,
        checked: &Checked,
        request: &Request,
        wish: Backing,
    ) -> Result<(PageRange, Backing), AllocError> {
        let fit = &checked.fit;
        let may_wait = fit.lowest_order().is_some() || self.grows_down(fit);
        let found = match request.node {
            _ if !may_wait => None,
            Some(node) => self.take_from_node(node, fit, self.may_reuse_memory(wish, checked)),
            None => self.take_waiting(checked, wish),
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let area = self.claim(checked.fit, checked.blocking)?;
        if let Some(node) = request.node {
            self.areas.map().leaf(area.start()).set_owner_node(node);
        }
        Ok((area, Backing::None))
    }

    /// Takes an area that waits: one with memory, of this CPU's node or of the stock, else one that
    /// is in a pool; where the space would grow, also memory that nodes did not need.
    #[inline]
    fn take_waiting(&self, checked: &Checked, wish: Backing) -> Option<(PageRange, Backing)> {
        let fit = &checked.fit;
        let (is_small, has_memory) = (SizeStacks::takes(fit.pages()), self.may_reuse_memory(wish, checked));
        let is_base = has_memory && checked.size == PageSize::Base;
        let cached = if is_small && is_base { self.take_cached(fit) } else { None };
        let most = fit.pages() + self.slack_for(fit);
        let wanted = Wanted { pages: fit.pages(), most, align: fit.alignment() };
        // Where new memory is cheap, a lock of all CPUs is not worth it for a small area.
        let may_stock = has_memory && (!is_small || self.max_slack_percent != 0);
        let stocked = || if may_stock { self.take_stocked(checked, &wanted) } else { None };
        if let Some(area) = cached.or_else(stocked) {
            return Some((area, Backing::Cached));
        }
        let pooled = if is_small { self.take_pooled(fit, is_base) } else { None };
        let may_grow = has_memory && self.max_slack_percent != 0 && checked.blocking == Blocking::Allowed;
        match pooled {
            None if may_grow => self.grow(fit, &wanted).map(|area| (area, Backing::Cached)),
            pooled => pooled,
        }
    }

    /// Takes an area that waits in the node that the caller chose.
    #[cold]
    fn take_from_node(&self, node: usize, fit: &Fit, may_have_memory: bool) -> Option<(PageRange, Backing)> {
        if !SizeStacks::takes(fit.pages()) {
            return None;
        }
        let mut node = self.cache.nodes[node].lock();
        let cached = if may_have_memory { self.take_cached_of(&mut node, fit) } else { None };
        if let Some(area) = cached {
            return Some((area, Backing::Cached));
        }
        let start = node.pooled.take(fit.pages(), fit.alignment())?;
        Some((PageRange::of(start, start + fit.pages()), Backing::None))
    }

    /// Takes memory of the stock.
    fn take_stocked(&self, checked: &Checked, wanted: &Wanted) -> Option<PageRange> {
        let area = self.cache.stock.lock().take(&self.cache.budget, wanted, self.borders())?;
        if SizeStacks::takes(area.len()) {
            self.bring_home(&area, self.platform.cpu() % self.cache.nodes.len());
        }
        if checked.size == PageSize::Huge {
            // SAFETY: the area was just taken for this caller alone, and is mapped.
            unsafe { self.platform.make_huge(payload(area, checked.guard_pages)) };
        }
        Some(area)
    }

    /// Returns the means to cut and join areas that wait, where no area has a guard page.
    #[inline]
    pub(super) fn borders(&self) -> Option<&Areas<P::RawLock>> {
        (self.guard_pages == 0).then_some(&self.areas)
    }

    /// Returns whether a cached area may serve a request. Only areas with the usual guard are
    /// cached: every area of a size can then stand in for every other.
    #[inline]
    fn may_reuse_memory(&self, wish: Backing, checked: &Checked) -> bool {
        wish == Backing::Cached && self.caches && checked.guard_pages == self.guard_pages
    }

    /// Aligns a request that is large enough for huge pages to one, if there is such a place.
    #[cold]
    fn fit_huge(&self, checked: &mut Checked) {
        let order = self.geometry.huge_order.filter(|&order| {
            (checked.fit.pages() - checked.guard_pages) >> order != 0 && checked.fit.alignment() < 1 << order
        });
        let Some(order) = order else { return };
        let aligned = checked.fit.align(1 << order);
        if self.areas.map().place_for(&aligned).is_ok() {
            checked.fit = aligned;
        }
    }

    /// Makes a claimed area busy, with its annotation. When memory is short the area is given back.
    ///
    /// This is the one place where areas become busy, but for [`reuse`](Self::reuse), whose areas
    /// have no annotation.
    #[inline]
    pub(super) fn hand_out(
        &self,
        area: PageRange,
        annotation: Annotation,
        backing: Backing,
    ) -> Result<(), AllocError> {
        match self.areas.hand_out(area, annotation) {
            Some(true) => Ok(()),
            Some(false) => self.platform.fatal(&"a claimed area is busy"),
            None => self.not_annotated(area, backing),
        }
    }

    #[cold]
    fn not_annotated(&self, area: PageRange, backing: Backing) -> Result<(), AllocError> {
        match backing {
            Backing::None => self.sure(self.areas.release(&[area])),
            // Where an area can neither be described nor be given back, it is handed out: it lacks
            // its tag, but is not lost.
            Backing::Cached if !self.discard(area) => {
                let was_claimed = self.areas.make_busy(area.start());
                return if was_claimed { Ok(()) } else { self.platform.fatal(&"a claimed area is busy") };
            }
            Backing::Cached => {}
        }
        Err(AllocError::Metadata)
    }

    /// Puts pages behind an area just obtained, with the content asked for.
    pub(super) fn back_with(
        &self,
        area: PageRange,
        checked: &Checked,
        annotation: Annotation,
        request: &Request,
    ) -> Result<usize, AllocError> {
        let area = match self.map_memory(area, checked) {
            Ok(()) => area,
            Err(cause) => self.back_after_purge(area, checked, annotation, cause)?,
        };
        if !self.geometry.maps_zeroed {
            self.clean(area, checked, request);
        }
        Ok(self.addr(area.start()))
    }

    /// Purges and tries again to put pages behind an area, as long as that brings anything: while a
    /// purge waits for other CPUs they go on, and may take the pages that the one before gave back.
    #[cold]
    fn back_after_purge(
        &self,
        area: PageRange,
        checked: &Checked,
        annotation: Annotation,
        mut cause: PlatformError,
    ) -> Result<PageRange, AllocError> {
        self.give_up(area, annotation);
        let rounds = if checked.blocking == Blocking::Forbidden { 0 } else { ROUNDS };
        for _ in 0..rounds {
            let Ok(done) = self.purge_with(PurgePlan::ALL) else { break };
            let area = self.claim(checked.fit, Blocking::Allowed)?;
            self.hand_out(area, annotation, Backing::None)?;
            match self.map_memory(area, checked) {
                Ok(()) => return Ok(area),
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
        let sizes = [fit.pages(), fit.alignment(), self.areas.map().largest_free()];
        let [size, align, largest] = sizes.map(|pages| self.bytes(pages) as u64);
        let within = self.addrs(fit.limits().unwrap_or(self.geometry.span));
        Unbacked { size, align, within, largest, cause }.into()
    }

    fn map_memory(&self, area: PageRange, checked: &Checked) -> Result<(), PlatformError> {
        let payload = payload(area, checked.guard_pages);
        // SAFETY: the area was obtained for this caller alone, without memory.
        unsafe {
            match checked.size {
                PageSize::Base => self.platform.map(payload, Protection::ReadWrite),
                PageSize::Huge => self.platform.map_huge(payload, Protection::ReadWrite),
            }
        }
    }

    /// Frees a busy area that got no memory, and its annotation.
    #[cold]
    pub(super) fn give_up(&self, area: PageRange, annotation: Annotation) {
        self.sure(self.areas.give_up(area, annotation));
    }
}

/// Returns the area's pages without its guard.
#[inline]
pub(super) fn payload(area: PageRange, guard_pages: u64) -> PageRange {
    PageRange::of(area.start(), area.end() - guard_pages)
}
