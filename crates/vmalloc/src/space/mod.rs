//! The space: areas of one span of addresses, on a platform's memory. It orders its components, and
//! has no state of its own.
//!
//! ```text
//!   alloc:   check ─► this CPU's node: an area of this size, with memory or without? ──yes──► revive ─► map if need be
//!                          │no
//!                          ▼
//!                     area map: lowest fit, and a few more for the node ──full──► purge all, wait, again;
//!                                                                              notifiers, again ──full──► error
//!
//!   free:    retire ─► this CPU's node: cached (budget) or lazy ─► above the threshold: drain     (see `purge`)
//! ```
//!
//! # Locks
//! In the order in which they are taken; each is passed on to nothing that could take one before
//! it.
//! 1. The purger: one purge of the space at a time, and the areas that it has taken. Then those of
//!    groups of nodes. The only locks that are held over calls of the platform.
//! 2. A node: what its CPUs free and take. Two are held together only for
//!    [`verify_space`](Space::verify) and forks, in order. Then the stock.
//! 3. The locks of a [tenant](crate::tenant).
//! 4. A table of annotations.
//! 5. The notifiers; the frame sets.
//! 6. The area map. Under it the node of the CPU is tried once, to put a run in, and never waited
//!    for.

mod alloc;
mod claim;
mod commit;
mod exec;
mod fork;
mod frame_list;
mod free;
mod free_atomic;
mod free_with;
mod group;
mod growth;
mod held_node;
mod mapping;
mod options;
pub(crate) mod outline;
mod pressure;
mod purge_calls;
mod purging;
mod raw;
mod read;
mod request;
mod resize;
mod reuse;
mod stats;
mod tenants;
mod told;
mod trap;
mod verify_space;
mod walk;

pub(crate) use mapping::give;
pub use options::{MAX_NODES, SpaceOptions};
pub use outline::Outline;
pub use pressure::Notifier;
pub use raw::Raw;
pub use request::{Request, Resize};
pub use stats::{NodeStats, Stats};
pub use walk::{Areas as AreasIter, Cached, CachedAreas, Segments, Vmallocinfo};

use crate::PageRange;
use crate::areas::{AreaInfo, Areas, Contended};
use crate::platform::{Geometry, Platform};
use crate::purge::{Counts, Deferred, FrameSets, Purger, Tenants};
use crate::sync::AtomicU64;
use crate::sync::size;
use crate::wait::policy::APART;
use crate::wait::{Apart, Cache};
use crate::{AllocError, AreaError, FreeError, SpaceError};
use ::alloc::sync::Arc;
use core::fmt;
use lock_api::Mutex;
use pressure::{Inside, Notifiers};
use vmalloc_map::parts::{Bitmaps, LEAF_SHIFT, Leaf, Lent};

/// One span of addresses on a platform's memory, from which guarded areas of any size are handed
/// out. Any thread may call any method.
///
/// Safe code uses the types that own something: [`Buffer`](crate::Buffer),
/// [`Mapping`](crate::Mapping) and the [others](crate#what-owns-what). Everything else that
/// makes or ends areas is in the unsafe layer [`Raw`], by address.
pub struct Space<P: Platform> {
    // Constant.
    platform: P,
    options: SpaceOptions,
    geometry: Apart<Geometry>,
    /// log2 of the page size in bytes.
    shift: u32,
    /// The bits that the address of an area does not have which may be freed in a common case: all,
    /// where every free has more to do.
    free_mask: usize,
    /// The bits that such an address does not have where the memory may be cached: all, where
    /// nothing is.
    cache_mask: usize,
    guard_pages: u64,
    /// True if freed areas may keep their memory.
    caches: bool,
    /// True if new memory is dear.
    is_dear: bool,
    /// [`SpaceOptions::max_slack_percent`], as it was decided.
    max_slack_percent: u64,
    /// The end of the first leaves, each of which is one node's.
    apart_end: u64,
    /// Pages from which on an area begins at a huge page, if there is such a place.
    aligned_from: u64,

    pub(crate) areas: Areas<P::RawLock>,
    cache: Cache<P::RawLock>,
    purger: Apart<Mutex<P::PurgeLock, Purger>>,
    /// A purger for each group of nodes, if there are several.
    groups: purging::Groups<P::PurgeLock>,
    /// Purges of the whole space that have begun.
    begun: Apart<AtomicU64>,
    /// Purges and looks that have to meet everything, in one node after the other. Meanwhile no
    /// group purges by itself, and no node takes areas of other nodes for later.
    whole: Apart<Inside>,
    counts: Apart<Counts>,
    tenants: Tenants,
    pub(crate) frame_sets: Apart<FrameSets<P, P::RawLock>>,
    deferred: Apart<Deferred>,
    /// The platform's knowledge of what waits: [`told::ASKED`], [`told::URGENT`], or 0 for none.
    told: Apart<AtomicU64>,
    /// Allocations that wait for addresses to be given back. Meanwhile no node takes addresses of
    /// the map for later.
    need: Apart<Inside>,
    notifiers: Notifiers<P>,
}

impl<P: Platform> Space<P> {
    /// Returns a space over the platform's span, all of it free. O(nodes), however large the span.
    ///
    /// # Errors
    /// [`SpaceError`]: the span holds page 0 or ends behind the last address, a setting makes no
    /// sense, or memory for metadata is short.
    pub fn new(platform: P, mut options: SpaceOptions) -> Result<Self, SpaceError> {
        let geometry = platform.geometry();
        let (span, shift, cpus) = (geometry.span, geometry.page_shift, geometry.cpus);
        SpaceError::check_span(&geometry)?;
        if let Some(constant) = P::PAGE_SHIFT.filter(|&constant| constant != shift) {
            return Err(SpaceError::PageShift { page_shift: shift, constant });
        }
        let count = options.node_count(cpus)?;
        let percent = *options.max_slack_percent.get_or_insert(geometry.max_slack_percent);
        let allowance = options.allowance(&geometry);
        let leaves = Bitmaps::flat_leaves(span);
        let lent = platform.extras().lend_records(leaves * size_of::<Leaf>());
        // SAFETY: the platform lends that for its life, and lives as long as the areas.
        let flat = lent.map(|at| unsafe { Lent::new(at, leaves) });
        let mask = |are_all: bool| if are_all { usize::MAX } else { (1 << shift) - 1 };
        let frees_do_more = options.trap_on_free || options.zero_on_free;
        let cache = Cache::new(count, allowance, u64::from(options.guard))?;
        let mut purger = Apart::new(|| Mutex::new(Purger::default()))?;
        purger.get_mut().prepare(count)?;
        let groups = purging::groups(&cache)?;
        // SAFETY: the lock is not taken, and nothing releases it here.
        let is_ready = |lock: &Mutex<_, _>| platform.init_purge_lock(unsafe { lock.raw() });
        if !is_ready(&purger) || !groups.iter().all(|group| is_ready(&group.0)) {
            return Err(SpaceError::Metadata);
        }
        Ok(Self {
            shift,
            free_mask: mask(frees_do_more),
            cache_mask: mask(frees_do_more || allowance.most == 0),
            guard_pages: u64::from(options.guard),
            caches: allowance.most != 0,
            is_dear: allowance.is_dear,
            max_slack_percent: u64::from(percent),
            apart_end: (span.start() + (size(APART << LEAF_SHIFT, 2)) * count as u64).min(span.end()),
            aligned_from: geometry.huge_order.map_or(u64::MAX, |order| 2 << order),
            areas: Areas::new(&geometry, options.guard, count, flat)?,
            purger,
            groups,
            begun: Apart::new(|| AtomicU64::new(0))?,
            whole: Apart::new(Inside::default)?,
            cache,
            counts: Apart::new(Counts::default)?,
            tenants: Tenants::new(),
            frame_sets: Apart::new(FrameSets::new)?,
            deferred: Apart::new(Deferred::default)?,
            told: Apart::new(|| AtomicU64::new(0))?,
            need: Apart::new(Inside::default)?,
            notifiers: Notifiers::new()?,
            geometry: Apart::new(|| geometry)?,
            platform,
            options,
        })
    }

    /// Returns log2 of the page size in bytes.
    #[inline(always)]
    fn shift(&self) -> u32 {
        P::PAGE_SHIFT.unwrap_or(self.shift)
    }

    /// Returns the bits of an address inside its page.
    #[inline(always)]
    fn offset_mask(&self) -> usize {
        (1 << self.shift()) - 1
    }

    /// Returns the platform below.
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Returns the constants of the machine.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns where the records of this space lie, for a reader in another process. It holds for
    /// as long as the space is neither dropped nor moved. It is without tags when memory is short.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline::of(self)
    }

    /// Returns the settings. The bytes to cache are as they were decided.
    pub fn options(&self) -> &SpaceOptions {
        &self.options
    }

    /// Returns the unsafe layer, which names areas by their addresses.
    #[inline(always)]
    pub fn raw(&self) -> Raw<'_, P> {
        Raw { space: self, context: P::Context::default() }
    }

    /// Returns whether `addr` lies in this space, allocated or not. No lock.
    #[doc(alias = "is_vmalloc_addr")]
    #[must_use]
    pub fn contains(&self, addr: usize) -> bool {
        self.geometry.span.contains((addr >> self.shift()) as u64)
    }

    /// Returns the area that holds `addr`, which may be anywhere inside it, guard page included.
    /// All of the answer was true at one moment during the call. O(1) and without a lock for plain
    /// areas of up to 256 pages near the start of the span; O(log n) for others.
    #[doc(alias = "find_vm_area")]
    #[must_use]
    pub fn find(&self, addr: usize) -> Option<AreaInfo> {
        self.areas.find((addr >> self.shift()) as u64, self.shift())
    }

    /// Returns the area that holds `addr`, without waiting: for profilers and crash dumps, which
    /// may run at any moment. Most areas are found without any lock.
    ///
    /// # Errors
    /// [`Contended`] when the look-up needs a lock that is held, perhaps by the very thread that
    /// was interrupted. Also when other threads allocate and free there all the time.
    pub fn try_find(&self, addr: usize) -> Result<Option<AreaInfo>, Contended> {
        self.areas.try_find((addr >> self.shift()) as u64)
    }

    /// Returns how many bytes of the area that starts at `addr` can be used: at least as many as
    /// were asked for. `None` if no area starts there. Cost as [`find`](Self::find).
    #[doc(alias = "malloc_usable_size")]
    #[must_use]
    pub fn usable_size(&self, addr: usize) -> Option<usize> {
        let area = self.find(addr).filter(|area| area.addr == addr)?;
        Some(self.bytes(area.pages))
    }

    /// Has `notifier` called when an allocation finds no addresses, and by age, for as long as the
    /// notifier lives. One that is registered while others are called is called from the next round
    /// on. O(notifiers).
    ///
    /// # Errors
    /// [`AllocError::Metadata`] when there is no memory to remember it; nothing is changed.
    #[doc(alias = "register_vmap_purge_notifier")]
    pub fn register_notifier(&self, notifier: &Arc<dyn Notifier<P>>) -> Result<(), AllocError> {
        self.notifiers.register(notifier)
    }

    /// Returns a number that is another one in each child of a fork over which the space was
    /// locked: for notifiers that count the threads at work on them.
    #[doc(hidden)]
    pub fn generation(&self) -> u64 {
        self.need.generation()
    }

    /// Returns the number of this CPU's node.
    #[inline(always)]
    fn cpu_node(&self) -> usize {
        let (cpu, nodes) = (self.platform.cpu(), self.cache.nodes.len());
        if cpu < nodes { cpu } else { cpu % nodes }
    }

    #[inline(always)]
    fn addr(&self, page: u64) -> usize {
        (page << self.shift()) as usize
    }

    /// Returns the bytes of `pages` pages, or as many as there are numbers for.
    fn bytes(&self, pages: u64) -> usize {
        usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(1 << self.shift())
    }

    /// Returns the addresses of pages, for errors.
    #[cold]
    fn addrs(&self, pages: PageRange) -> PageRange {
        pages.times(1 << self.shift())
    }

    #[cold]
    pub(crate) fn beyond(&self, asked: PageRange, area: PageRange) -> AreaError {
        AreaError::Beyond { asked: self.addrs(asked), area: self.addrs(area) }
    }

    /// Returns the page that `addr` starts.
    #[inline(always)]
    fn page(&self, addr: usize) -> Result<u64, FreeError> {
        if addr & self.offset_mask() != 0 {
            return Err(self.why_no_start(addr));
        }
        Ok((addr >> self.shift()) as u64)
    }

    /// Returns the error for an address inside a page: foreign memory is told first. It never
    /// waits, and calls an address of the span unaligned where it would have to.
    #[cold]
    fn why_no_start(&self, addr: usize) -> FreeError {
        match self.contains(addr).then(|| self.try_find(addr)) {
            None | Some(Ok(None)) => FreeError::NotAnArea { addr },
            _ => FreeError::Unaligned { addr },
        }
    }

    /// Returns the area that starts at `addr`.
    fn area_starting(&self, addr: usize) -> Result<AreaInfo, FreeError> {
        self.page(addr)?;
        match self.find(addr) {
            Some(area) if area.addr == addr => Ok(area),
            Some(area) => Err(FreeError::Interior { addr, start: area.addr }),
            None => Err(FreeError::NotAnArea { addr }),
        }
    }

    /// Returns the pages of an area without its guard.
    fn pages_of(&self, area: &AreaInfo) -> PageRange {
        let start = (area.addr >> self.shift()) as u64;
        PageRange::of(start, start + area.pages)
    }

    /// Stops the program if a step failed that can't fail unless the state is damaged.
    fn sure<T, E: fmt::Display>(&self, result: Result<T, E>) -> T {
        result.unwrap_or_else(|damage| self.platform.fatal(&damage))
    }
}

impl<P: Platform> Drop for Space<P> {
    /// Gives frames back whose last area was freed and not yet flushed: those of a sub-space are
    /// its root's.
    fn drop(&mut self) {
        if self.frame_sets.get_mut().waiting() != [0; 2] {
            // What the platform refuses to unmap may show them still, so they stay taken.
            let _ = self.purge();
        }
    }
}

impl<P: Platform> fmt::Debug for Space<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("span", &self.geometry.span)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
