//! The space: areas of one span of addresses, on a platform's memory.
//!
//! ```text
//!   alloc:   check ─► this CPU's node: an area of this size, with memory or without? ──yes──► revive ─► map if need be
//!                          │no
//!                          ▼
//!                     area map: lowest fit, and a few more for the node ──full──► purge all, wait, again;
//!                                                                              notifiers, again ──full──► error
//!
//!   vfree:   retire ─► this CPU's node: cached (budget) or lazy ─► above the threshold: drain     (see `purge`)
//! ```
//!
//! # Locks
//! In the order in which they are taken; each is passed on to nothing that could take one before it.
//! 1. `purger`: one purge at a time, and what it has taken. The only one held over calls of the platform.
//! 2. A node: what its CPUs free and take. Two are held together only for [`verify`](Space::verify) and forks, in order.
//! 3. A queue of [blocks](crate::block), or none.
//! 4. The shelf of all blocks, under which nothing is locked. With a queue or without.
//! 5. A table of annotations.
//! 6. The lots: frames that areas own.
//! 7. `map`: where segments start.
//!
//! Whether an area is busy is a bit that is flipped without any of them, by the one who owns it
//! ([`Bitmaps`](crate::area_map)): of two who free it, one is told that he came second.
//!
//! # Records
//! An area's range and state are bits in the area map. What else is known of it (a caller's tag, bytes less than
//! whole pages, a missing guard, another kind than [`Kind::Vmalloc`]) is a *annotation*, and plain areas have none.

mod alloc;
mod annotations;
mod blocks;
mod buffer;
mod config;
mod deferred;
mod drain;
mod exec;
mod free;
mod info;
mod keys;
mod kind;
mod kvmalloc;
mod linear;
mod local;
mod lots;
mod map;
mod mapping;
mod node;
mod notify;
mod percpu;
mod pools;
mod purge;
mod ram;
mod read;
mod realloc;
mod refused;
mod request;
mod reuse;
mod shrink;
mod sparse;
mod verify;
mod walk;

pub use buffer::{Buffer, Content, Stale, Zeroed};
pub use config::{Config, MAX_NODES};
pub use drain::DrainStatus;
pub use info::{AreaInfo, Areas, Busy, NodeStats, Stats, Vmallocinfo};
pub use kind::Kind;
pub use notify::Notifier;
pub use request::Request;
pub use walk::{Kept, KeptAreas, Segments};

use crate::addr::PageRange;
use crate::area_map::{AreaMap, Bitmaps, Heap};
use crate::block::Blocks;
use crate::counted::Counted;
use crate::error::{FreeError, SpaceError};
use crate::platform::{Geometry, Platform};
use crate::sync::{AtomicU64, Mutant, is};
use ::alloc::boxed::Box;
use ::alloc::vec::Vec;
use annotations::Annotations;
use deferred::Deferred;
use free::GRANT_PAGES;
use linear::Linear;
use lock_api::{Mutex, MutexGuard};
use lots::Lots;
use node::Node;
pub(crate) use node::Padded;
use notify::{Need, Notifiers};
use purge::{Counts, Purger};

type Nodes<L> = Box<[Padded<Mutex<L, Node>>]>;

/// One span of addresses on a platform's memory. All methods may be called from any thread.
pub struct Space<P: Platform> {
    // Constant.
    platform: P,
    config: Config,
    geometry: Geometry,
    shift: u32,
    /// The bits of an address inside its page.
    offset_mask: usize,
    guard_pages: u64,
    /// What the pages of a request, shifted down, are away from the size of its area in the pools.
    guard_less_one: usize,
    /// Whether freed areas may keep their memory.
    caches: bool,
    /// [`Config::max_slack_percent`], as it was decided.
    max_slack_percent: u64,
    /// Pages still to be granted that leave no reason for reusing larger areas.
    plenty: u64,
    /// Lazy pages that start a drain.
    lazy_max: u64,
    /// Lazy pages that make allocations drain as well.
    lazy_most: u64,
    /// Lazy pages of a node that are worth telling all.
    portion: u64,
    /// Pages that a node asks for at a time of what all may retain.
    grant_pages: u64,
    bitmaps: Counted<Bitmaps<Heap>>,

    // Written by everybody, each for himself.
    nodes: Nodes<P::RawLock>,
    annotations: Annotations<P::RawLock>,

    // Shared by all, and touched now and then.
    map: Padded<Mutex<P::RawLock, AreaMap>>,
    purger: Padded<Mutex<P::PurgeLock, Purger>>,
    /// Lazy pages, but for less than a portion in each node.
    lazy_pages: Padded<AtomicU64>,
    /// Pages that may be cached and are granted to no node yet.
    ungranted: Padded<AtomicU64>,
    /// Allocations that wait for addresses to be given back.
    need: Padded<Need>,
    /// Ranges of areas in use that have still to be unmapped.
    torn: AtomicU64,
    counts: Counts,
    pub(crate) blocks: Blocks<P::RawLock>,
    linear: Linear,
    lots: Lots<P, P::RawLock>,
    deferred: Deferred,
    notifiers: Notifiers<P::RawLock>,
}

/// `ceil(log2)` + 1 in the kernel's sense: the position of the highest bit, counted from one.
fn fls(value: usize) -> u64 {
    u64::from(usize::BITS - value.leading_zeros())
}

/// `span`, if each of its pages has an address that is neither null nor out of reach, and so has its end.
pub(crate) fn check_span(span: PageRange, page_shift: u32) -> Result<PageRange, SpaceError> {
    if span.start() == 0 {
        return Err(SpaceError::NullPage { span });
    }
    if span.end() > usize::MAX as u64 >> page_shift {
        return Err(SpaceError::BeyondAddresses { span, page_shift });
    }
    Ok(span)
}

impl<P: Platform> Space<P> {
    /// A space over the platform's span, all of it free. O(nodes), however large the span.
    ///
    /// # Errors
    /// [`SpaceError`]: the span holds page 0 or ends behind the last address, a setting makes no sense, or memory for
    /// metadata is short.
    pub fn new(platform: P, config: Config) -> Result<Self, SpaceError> {
        let geometry = platform.geometry();
        let (shift, cpus) = (geometry.page_shift, geometry.cpus);
        let span = check_span(geometry.span, shift)?;
        let count = config.node_count(cpus)?;
        let map = AreaMap::new(span).map_err(|_| SpaceError::Metadata)?;
        let lazy_max = match config.lazy_max_pages {
            0 => (32 << 20 >> shift) * fls(cpus),
            pages => pages,
        };
        Ok(Self {
            shift,
            offset_mask: (1 << shift) - 1,
            guard_pages: u64::from(config.guard),
            guard_less_one: usize::from(config.guard).wrapping_sub(1),
            caches: config.cache_bytes != 0,
            max_slack_percent: u64::from(config.max_slack_percent.unwrap_or(geometry.max_slack_percent)),
            plenty: (config.cache_bytes >> shift) as u64 / 4,
            lazy_max,
            lazy_most: lazy_max.saturating_mul(2),
            // All nodes together hold back at most a quarter of the threshold.
            portion: (lazy_max / 4 / count as u64).max(1),
            // Each node gets some four times.
            grant_pages: ((config.cache_bytes >> shift) / count / 4).clamp(1, GRANT_PAGES as usize) as u64,
            bitmaps: map.bitmaps(),
            nodes: nodes(count)?,
            annotations: Annotations::new(count).ok_or(SpaceError::Metadata)?,
            map: Padded(Mutex::new(map)),
            purger: Padded(Mutex::new(Purger::new(count).ok_or(SpaceError::Metadata)?)),
            lazy_pages: Padded(AtomicU64::new(0)),
            ungranted: Padded(AtomicU64::new((config.cache_bytes >> shift) as u64)),
            need: Padded(Need::default()),
            torn: AtomicU64::new(0),
            counts: Counts::default(),
            blocks: Blocks::new(span, count, config.checked_slots()?, geometry.remaps_atomically)
                .ok_or(SpaceError::Metadata)?,
            linear: Linear::default(),
            lots: Lots::new(),
            deferred: Deferred::default(),
            notifiers: Notifiers::new(),
            geometry,
            platform,
            config,
        })
    }

    /// The platform below.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Returns the constants of the machine.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    #[inline(always)]
    fn addr(&self, page: u64) -> usize {
        (page << self.shift) as usize
    }

    /// The bytes of `pages` pages, or as many as there are numbers for.
    fn bytes(&self, pages: u64) -> usize {
        usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(1 << self.shift)
    }

    /// The page that `addr` starts.
    #[inline(always)]
    fn page(&self, addr: usize) -> Result<u64, FreeError> {
        if addr & self.offset_mask != 0 {
            return Err(FreeError::Unaligned { addr });
        }
        Ok((addr >> self.shift) as u64)
    }

    /// The node of the CPU that runs this, held. The CPU is a hint: any node would do.
    #[inline(always)]
    fn node(&self) -> (usize, MutexGuard<'_, P::RawLock, Node>) {
        let cpu = self.platform.cpu();
        match self.nodes.get(cpu) {
            Some(node) => (cpu, node.0.lock()),
            None => self.node_of_many(cpu),
        }
    }

    #[inline(never)]
    fn node_of_many(&self, cpu: usize) -> (usize, MutexGuard<'_, P::RawLock, Node>) {
        let id = cpu % self.nodes.len();
        (id, self.nodes[id].0.lock())
    }

    /// Whether `addr` lies in this space, allocated or not. No lock.
    pub fn is_vmalloc_addr(&self, addr: usize) -> bool {
        self.geometry.span.contains((addr >> self.shift) as u64)
    }

    /// Holds all locks of the space, for a `fork`, until [`resume`](Self::resume). Waits for a purge under way; a thread that
    /// calls it twice, or allocates in between, waits for itself.
    ///
    /// It is safe to call, for it only takes locks: memory is never handed out twice, but threads
    /// may wait for ever. The locks of what the platform stands on are not among them: see
    /// [`Root::quiesce`](crate::Root::quiesce).
    pub fn quiesce(&self) {
        if is(Mutant::ForkOutOfOrder) {
            core::mem::forget(self.map.0.lock());
        }
        core::mem::forget(self.purger.0.lock());
        self.nodes.iter().for_each(|node| core::mem::forget(node.0.lock()));
        self.blocks.queues.iter().for_each(|queue| core::mem::forget(queue.0.slow.lock()));
        core::mem::forget(self.blocks.shelf.0.lock());
        self.annotations.tables().for_each(|table| core::mem::forget(table.lock()));
        self.notifiers.quiesce();
        self.lots.quiesce();
        if !is(Mutant::ForkOutOfOrder) {
            core::mem::forget(self.map.0.lock());
        }
    }

    /// Ends what [`quiesce`](Self::quiesce) began, in the child of a fork: also what threads of the parent, which the child does not have,
    /// were doing without locks.
    ///
    /// # Safety
    /// The thread that this one was forked from has called `quiesce`; this one has not yet called this, or
    /// [`resume`](Self::resume), and is the only one.
    pub unsafe fn resume_in_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.resume() };
        if !is(Mutant::ForkAsItIs) {
            if !is(Mutant::ForkInNeed) {
                self.need.0.start_anew();
                self.notifiers.start_anew();
            }
            self.mend_retired();
            self.mend_blocks();
            self.forget_who_knows();
        }
    }

    /// Ends what [`quiesce`](Self::quiesce) began.
    ///
    /// # Safety
    /// The calling thread, or the thread it was forked from, has called `quiesce` and not yet `resume`.
    pub unsafe fn resume(&self) {
        // SAFETY: by the caller's promise this thread holds all locks.
        unsafe {
            self.map.0.force_unlock();
            self.lots.resume();
            self.notifiers.resume();
            self.annotations.tables().for_each(|table| table.force_unlock());
            self.blocks.shelf.0.force_unlock();
            self.blocks.queues.iter().for_each(|queue| queue.0.slow.force_unlock());
            self.nodes.iter().for_each(|node| node.0.force_unlock());
            self.purger.0.force_unlock();
        }
    }
}

fn nodes<L: lock_api::RawMutex>(count: usize) -> Result<Nodes<L>, SpaceError> {
    let mut nodes = Vec::new();
    nodes.try_reserve_exact(count).map_err(|_| SpaceError::Metadata)?;
    for _ in 0..count {
        nodes.push(Padded(Mutex::new(Node::new().ok_or(SpaceError::Metadata)?)));
    }
    Ok(nodes.into_boxed_slice())
}
