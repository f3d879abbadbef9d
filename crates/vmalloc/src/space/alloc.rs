//! Allocation: from this CPU's node, else from the area map, else what a purge brings back.

use super::claim::{Backing, ROUNDS};
use super::held_node::take_of;
use super::request::{Checked, Content, PageSize};
use super::{Raw, Request, Space};
use crate::areas::{Annotation, Blocking, Kind, Placement};
use crate::platform::{Platform, PlatformError, Protection};
use crate::purge::PurgePlan;
use crate::wait::{BATCH, SizeStacks};
use crate::{AllocError, AreaError, Fit, PageRange, Policy, RequestError};

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
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<usize, AllocError> {
        // Taken apart, so that a request that is made where it is used never gets as far as memory.
        match request.plain() {
            Some((bytes, align)) => match self.reuse(bytes, align) {
                0 => self.alloc_plain(bytes, align),
                addr => Ok(addr),
            },
            None => self.alloc_special(request),
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
        let addr = self.reuse_noted(request, true);
        if addr != 0 {
            return Ok(addr);
        }
        let allocation = self.begin(request)?;
        let (area, backing) = allocation.obtain(Kind::Reserved)?;
        self.space.hand_out(area, allocation.annotation(Kind::Reserved), backing)?;
        Ok(self.space.addr(area.start()))
    }

    /// Sets the [record](Request::record) of the area at `addr`, of any kind, or takes it away with
    /// 0. O(1). The first among 256 pages takes memory to note it.
    ///
    /// # Safety
    /// The caller owns the area: so an owner may rely on the records of its areas, as on pointers.
    ///
    /// # Errors
    /// [`AreaError`] when no such area starts at `addr`, or memory is short; nothing is changed.
    pub unsafe fn set_record(&self, addr: usize, record: u64) -> Result<(), AreaError> {
        let page = self.space.page(self.space.area_starting(addr)?.addr)?;
        if self.space.areas.set_record(page, record) { Ok(()) } else { Err(AllocError::Metadata.into()) }
    }

    #[inline(never)]
    fn alloc_plain(&self, bytes: usize, align: usize) -> Result<usize, AllocError> {
        self.alloc_slow(&Request::new(bytes).align(align))
    }

    /// Allocates for a request with anything special, perhaps no more than a record.
    #[inline(never)]
    fn alloc_special(&self, request: &Request) -> Result<usize, AllocError> {
        match self.reuse_noted(request, false) {
            0 => self.alloc_slow(request),
            addr => Ok(addr),
        }
    }

    #[inline(never)]
    pub(super) fn alloc_slow(&self, request: &Request) -> Result<usize, AllocError> {
        let (space, mut allocation) = (self.space, self.begin(request)?);
        allocation.begin_at_huge_page();
        let (area, backing) = allocation.obtain(Kind::Vmalloc)?;
        match request.plain() {
            // Without anything special it has no annotation.
            Some(_) if space.areas.make_busy(area.start()) => {}
            Some(_) => space.platform.fatal(&"a claimed area is busy"),
            None => space.hand_out(area, allocation.annotation(Kind::Vmalloc), backing)?,
        }
        match backing {
            Backing::None => allocation.back(area, Kind::Vmalloc),
            Backing::Cached => {
                allocation.clean(area);
                Ok(space.addr(area.start()))
            }
        }
    }

    /// Checks a request against the machine's pages and this space.
    #[inline]
    pub(super) fn begin<'a>(&'a self, request: &'a Request) -> Result<Allocation<'a, P>, AllocError> {
        let space = self.space;
        if let Some(node) = request.node.filter(|&node| node >= space.cache.nodes.len()) {
            let nodes = space.cache.nodes.len();
            return Err(RequestError::NoSuchNode { node, nodes }.into());
        }
        let (options, huge_order) = (&space.options, space.geometry.huge_order);
        let checked = request.check(space.shift(), options.guard, options.policy, huge_order)?;
        Ok(Allocation { space, request, checked, context: self.context })
    }
}

/// An allocation under way: a request that was checked, and the space that is to meet it.
pub(super) struct Allocation<'a, P: Platform> {
    pub(super) space: &'a Space<P>,
    request: &'a Request,
    pub(super) checked: Checked,
    context: P::Context,
}

impl<P: Platform> Allocation<'_, P> {
    /// Returns the annotation of an area that is obtained for this.
    #[inline]
    pub(super) fn annotation(&self, kind: Kind) -> Annotation {
        let Request { tag, record, placement, .. } = *self.request;
        let Checked { guard_pages, size, .. } = self.checked;
        let placement = match kind {
            Kind::Vmalloc => Placement { is_huge: size == PageSize::Huge, ..placement },
            // No other kind moves.
            _ => Placement::USUAL,
        };
        Annotation { kind, guard_pages, tag, record, placement }
    }

    /// Clears an area just obtained whose memory may hold anything, if that was asked for.
    #[inline]
    fn clean(&self, area: PageRange) {
        if self.request.content == Content::Zeros {
            // SAFETY: the area was just taken for this caller alone, and is mapped.
            unsafe { self.space.platform.zero(self.payload(area)) };
        }
    }

    /// Claims an area of a kind, memory with what it kept.
    #[inline]
    fn obtain(&self, kind: Kind) -> Result<(PageRange, Backing), AllocError> {
        let (space, fit, blocking) = (self.space, &self.checked.fit, self.checked.blocking);
        if blocking == Blocking::Allowed {
            space.balance();
        }
        let may_have_memory = kind == Kind::Vmalloc && self.may_have_memory();
        let found = match self.request.node {
            _ if !self.may_wait() => None,
            Some(node) => take_of(space, &mut space.node(node).node, fit, may_have_memory),
            None => self.take_waiting(may_have_memory),
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let area = space.claim(&self.placed(kind), blocking)?;
        if let Some(node) = self.request.node {
            space.areas.map().leaf(area.start()).set_owner_node(node);
        }
        Ok((area, Backing::None))
    }

    /// Returns whether any area of the size that waits will do: it lies where the policy of the
    /// space has put it. A request with a policy of its own means it.
    #[inline]
    fn may_wait(&self) -> bool {
        let Placement { within, policy, .. } = self.request.placement;
        self.checked.fit.lowest_order().is_some() || within.is_none() && policy.is_none()
    }

    /// Returns whether memory that waits will do, as far as its place does. Only areas with the
    /// usual guard are cached: every area of a size can then stand in for every other.
    #[inline]
    fn may_have_memory(&self) -> bool {
        self.space.caches && self.checked.guard_pages == self.space.guard_pages
    }

    /// Returns the request as the map is asked for new addresses, for areas that are allocated and
    /// for those that move: a large area of memory begins at a huge page, and a random place is
    /// another one each time. What waits has its place and its huge pages.
    #[inline]
    pub(super) fn placed(&self, kind: Kind) -> Fit {
        let (space, fit) = (self.space, self.checked.fit);
        let is_large = kind == Kind::Vmalloc && fit.pages() >= space.aligned_from;
        let fit = if is_large || self.checked.size == PageSize::Huge { self.huge_fit() } else { fit };
        match fit.placement() {
            Policy::Random { seed } => fit.policy(Policy::Random { seed: seed ^ space.platform.entropy() }),
            _ => fit,
        }
    }

    /// Claims an area, high up or not, and hands it out with its annotation.
    pub(super) fn claim_as(&self, kind: Kind, is_high: bool) -> Result<(PageRange, Annotation), AllocError> {
        let (space, fit, blocking) = (self.space, self.placed(kind), self.checked.blocking);
        let area = if is_high { space.claim_high(&fit, blocking) } else { space.claim(&fit, blocking) }?;
        let annotation = self.annotation(kind);
        space.hand_out(area, annotation, Backing::None)?;
        Ok((area, annotation))
    }

    /// Takes an area that waits: one with memory, of a node or of the stock, else one that is in a
    /// pool; where the space would grow, also memory that nodes did not need. Where new memory is
    /// dear, the memory of others is worth a lock before addresses of this CPU's node are taken.
    #[inline]
    fn take_waiting(&self, may_have_memory: bool) -> Option<(PageRange, Backing)> {
        let (space, fit) = (self.space, &self.checked.fit);
        let (is_small, is_dear) = (SizeStacks::takes(fit.pages()), space.is_dear);
        let memory = if may_have_memory && (!is_small || is_dear) { self.take_memory() } else { None };
        if let Some(area) = memory {
            return Some((area, Backing::Cached));
        }
        let is_base = may_have_memory && self.checked.size == PageSize::Base;
        let found = if is_small { space.own_node().take_waiting(fit, is_base) } else { None };
        if found.is_some() || !may_have_memory || !is_dear {
            return found;
        }
        self.grow(fit.pages(), 0, Some(self.most())).map(|area| (area, Backing::Cached))
    }

    /// Takes memory that waits, if any will do, also what nodes did not need where the space would
    /// grow by `new` pages otherwise.
    pub(super) fn take_memory_for(&self, new: u64) -> Option<PageRange> {
        if !self.may_wait() || !self.may_have_memory() {
            return None;
        }
        self.take_memory().or_else(|| self.grow(new, 0, Some(self.most())))
    }

    /// Takes memory that waits: of a node, or of the stock.
    #[inline(always)]
    fn take_memory(&self) -> Option<PageRange> {
        let (space, fit) = (self.space, &self.checked.fit);
        let is_base = self.checked.size == PageSize::Base;
        let may_be_cached = is_base && SizeStacks::takes(fit.pages());
        let cached = if may_be_cached { space.own_node().take_cached(fit) } else { None };
        cached.or_else(|| self.take_stocked(self.most()))
    }

    /// Returns up to how many pages memory of the stock may have that is not cut: without guard
    /// pages a cut calls nothing.
    #[inline]
    fn most(&self) -> u64 {
        let (space, fit) = (self.space, &self.checked.fit);
        fit.pages() + if space.guard_pages == 0 { 0 } else { space.slack_for(fit) }
    }

    /// Takes memory of the stock, of which up to `most` pages are not cut. A large request may take
    /// calls, for new memory does as well; but not while another thread purges.
    pub(super) fn take_stocked(&self, most: u64) -> Option<PageRange> {
        let (space, Checked { fit, size, blocking, .. }) = (self.space, &self.checked);
        let may_call = *blocking == Blocking::Allowed && !SizeStacks::takes(fit.pages());
        let mut purge = if may_call && space.guard_pages != 0 { space.try_hold_purger() } else { None };
        // With room for what the platform refuses.
        purge = purge.and_then(|mut it| it.purger.list().try_reserve(1).is_ok().then_some(it));
        let (cache, calls) = (&space.cache, if purge.is_some() { BATCH } else { 0 });
        let (area, lacks_guard) = loop {
            // With a place for what a cut leaves.
            let found = cache.lock_stock(1).take(&cache.budget, fit, most, calls, &space.areas);
            if found.is_some() || !space.areas.supply_late() {
                break found?;
            }
        };
        purge.as_mut().is_none_or(|purge| purge.unite(area, lacks_guard)).then_some(())?;
        if SizeStacks::takes(area.len()) {
            // It may be a part of a larger one, and in a leaf that is no node's yet.
            space.areas.map().leaf(area.start()).set_owner_node(space.cpu_node());
        }
        if *size == PageSize::Huge {
            // SAFETY: the area was just taken for this caller alone, and is mapped.
            unsafe { space.platform.extras().make_huge(self.payload(area)) };
        }
        Some(area)
    }

    /// Has the area begin at a huge page, also where it is taken of what waits, if huge pages were
    /// asked for.
    #[inline]
    pub(super) fn begin_at_huge_page(&mut self) {
        if self.checked.size == PageSize::Huge {
            self.checked.fit = self.huge_fit();
        }
    }

    /// Returns the request, aligned to a huge page if it is large enough for one, and there is such
    /// a place.
    #[cold]
    fn huge_fit(&self) -> Fit {
        let Checked { fit, guard_pages, .. } = self.checked;
        let is_fit = |order: &u32| (fit.pages() - guard_pages) >> order != 0 && fit.alignment() < 1 << order;
        let order = self.space.geometry.huge_order.filter(is_fit);
        let aligned = order.map(|order| fit.align(1 << order));
        aligned.filter(|fit| self.space.areas.map().place_for(fit).is_ok()).unwrap_or(fit)
    }

    /// Puts pages behind an area of a kind just obtained, with the content asked for.
    pub(super) fn back(&self, area: PageRange, kind: Kind) -> Result<usize, AllocError> {
        let area = match self.map_memory(area) {
            Ok(()) => area,
            Err(cause) => self.back_after_purge(area, self.annotation(kind), cause)?,
        };
        if !self.space.geometry.maps_zeroed {
            self.clean(area);
        }
        Ok(self.space.addr(area.start()))
    }

    /// Purges and tries again to put pages behind an area, as long as that brings anything: while a
    /// purge waits for other CPUs they go on, and may take the pages that the one before gave back.
    #[cold]
    fn back_after_purge(
        &self,
        area: PageRange,
        annotation: Annotation,
        mut cause: PlatformError,
    ) -> Result<PageRange, AllocError> {
        let space = self.space;
        space.give_up(area, annotation);
        let rounds = if self.checked.blocking == Blocking::Forbidden { 0 } else { ROUNDS };
        for _ in 0..rounds {
            let Ok(done) = space.purge_with(PurgePlan::ALL) else { break };
            let (area, _) = self.claim_as(annotation.kind, false)?;
            match self.map_memory(area) {
                Ok(()) => return Ok(area),
                Err(again) => cause = again,
            }
            space.give_up(area, annotation);
            if done.given == 0 {
                break;
            }
        }
        Err(self.unbacked(cause))
    }

    /// Returns the error for memory that the platform does not have.
    #[cold]
    pub(super) fn unbacked(&self, cause: PlatformError) -> AllocError {
        self.space.unbacked(&self.checked.fit, cause)
    }

    fn map_memory(&self, area: PageRange) -> Result<(), PlatformError> {
        // SAFETY: the area was obtained for this caller alone, without memory.
        unsafe { self.map_pages(self.payload(area)) }
    }

    /// Puts memory behind pages of the area, of the size that was asked for.
    ///
    /// # Safety
    /// The pages are the caller's alone, and not mapped.
    pub(super) unsafe fn map_pages(&self, pages: PageRange) -> Result<(), PlatformError> {
        let (platform, context) = (&self.space.platform, self.context);
        // SAFETY: the caller's promise.
        unsafe {
            match self.checked.size {
                PageSize::Base => platform.map(pages, Protection::ReadWrite, context),
                PageSize::Huge => platform.map_huge(pages, Protection::ReadWrite, context),
            }
        }
    }

    /// Returns the area's pages without its guard.
    #[inline]
    pub(super) fn payload(&self, area: PageRange) -> PageRange {
        payload(area, self.checked.guard_pages)
    }
}

/// Returns the area's pages without its guard.
#[inline]
pub(super) fn payload(area: PageRange, guard_pages: u64) -> PageRange {
    PageRange::of(area.start(), area.end() - guard_pages)
}
