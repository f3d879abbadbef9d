//! The kernel as the allocator's machine, and the spaces that answer a shootdown.

use crate::arch::{self, CpuId, tlb};
use crate::cpu::{self, Here};
use crate::exit::{Status, exit};
use crate::memory::{DIRECT_MAP, Supply};
use crate::serial::print_in_need;
use crate::{boot, clock};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use vmalloc::{Frame, Origin, PageRange, PlatformFault, Protection, SpaceOptions};
use vmalloc_tables::{Interrupts, Machine, PageTables, Reach};

/// A space on this machine.
pub(crate) type Space = vmalloc::Space<PageTables<&'static Kernel>>;

/// This kernel.
pub(crate) struct Kernel {
    pub(crate) supply: Supply,
    /// The hardware's numbers of all CPUs, this one first.
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) online: AtomicU64,
    /// For tests: translations are not forgotten.
    pub(crate) keeps_stale: AtomicBool,
    /// Interrupts that were sent for shootdowns.
    pub(crate) interrupts: AtomicU64,
    /// For tests: looks at a CPU before it counts as lost.
    pub(crate) blocking: AtomicU64,
}

impl Kernel {
    /// Takes frames of a memory node, which few allocations ask for.
    #[cold]
    #[inline(never)]
    fn take_of(&self, frames: &mut [Frame], node: usize) -> Result<bool, PlatformFault> {
        let node = self.supply.node(node).ok_or(PlatformFault::Unsupported)?;
        Ok(self.supply.take_of(frames, node))
    }

    pub(crate) fn new(supply: Supply, cpus: Vec<CpuId>) -> Self {
        Self {
            supply,
            cpus,
            online: AtomicU64::new(1),
            keeps_stale: AtomicBool::new(false),
            interrupts: AtomicU64::new(0),
            blocking: AtomicU64::new(PATIENCE),
        }
    }

    /// Counts this CPU as online.
    pub(crate) fn join(&self) {
        self.online.fetch_or(1 << cpu::number(), Ordering::SeqCst);
        spaces().for_each(|space| space.platform().join());
    }
}

/// An emulated CPU may be kept waiting for its turn for a long while.
pub(crate) const PATIENCE: u64 = 1 << 40;

// SAFETY: `Here` keeps interrupts off.
unsafe impl Interrupts for &'static Kernel {
    #[inline(always)]
    fn off() {
        Here::off();
    }

    #[inline(always)]
    fn on() {
        Here::on();
    }
}

// SAFETY: the boot's tables and direct map are for good; the supply hands frames out once. Tests
// that switch forgetting off use the addresses for nothing else until all have forgotten them.
unsafe impl Machine for &'static Kernel {
    type Format = tlb::Format;
    /// The memory node, or any.
    type Context = Option<usize>;

    #[inline(always)]
    fn cpu(&self) -> usize {
        cpu::number()
    }

    fn cpus(&self) -> usize {
        self.cpus.len()
    }

    #[inline]
    fn is_online(&self, cpu: usize) -> bool {
        // SeqCst: a CPU that is not seen here sees, when it joins, the request that is made.
        self.online.load(Ordering::SeqCst) >> cpu & 1 != 0
    }

    #[inline]
    fn root(&self) -> Frame {
        Frame(boot::root() >> 12)
    }

    #[inline]
    fn direct_map(&self) -> usize {
        DIRECT_MAP
    }

    #[inline]
    fn frames(&self) -> u64 {
        self.supply.end()
    }

    #[inline]
    fn take_frames(&self, frames: &mut [Frame], node: Option<usize>) -> Result<(), PlatformFault> {
        let taken = match node {
            None => self.supply.take(frames),
            Some(node) => self.take_of(frames, node)?,
        };
        if taken { Ok(()) } else { Err(PlatformFault::OutOfMemory) }
    }

    fn take_run(&self, count: u64, align: u64, node: Option<usize>) -> Option<Frame> {
        let frames = node.map_or(Some(self.supply.all()), |node| self.supply.node(node))?;
        self.supply.take_run(count, align, frames)
    }

    #[inline]
    unsafe fn give_frames(&self, frames: &[Frame]) {
        self.supply.give(frames);
    }

    #[inline]
    fn origin(&self, frame: Frame) -> Origin {
        self.supply.origin(frame)
    }

    fn are_taken(&self, first: Frame, count: u64) -> bool {
        self.supply.are_taken(first, count)
    }

    #[inline]
    fn translation(&self) -> u64 {
        tlb::translation()
    }

    #[inline]
    fn forget(&self, ranges: &[PageRange]) {
        if !self.keeps_stale.load(Ordering::Relaxed) {
            tlb::forget(ranges);
        }
    }

    #[inline]
    fn forget_all(&self) {
        if !self.keeps_stale.load(Ordering::Relaxed) {
            tlb::forget_all();
        }
    }

    #[inline]
    fn reach(&self) -> Reach {
        tlb::REACH
    }

    #[inline]
    fn published(&self, _: &[PageRange]) {
        tlb::published();
    }

    fn interrupt(&self, cpu: usize) {
        self.interrupts.fetch_add(1, Ordering::Relaxed);
        arch::interrupt(self.cpus[cpu]);
    }

    fn blocking(&self) -> u64 {
        self.blocking.load(Ordering::Relaxed)
    }

    fn entropy(&self) -> u64 {
        static STATE: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
        STATE.fetch_add(clock::ticks() | 1, Ordering::Relaxed).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        print_in_need(format_args!("\nfatal: {damage}"));
        exit(Status::Died)
    }
}

const SPACES: usize = 4;

/// Those that shoot down, for the handler of the interrupt.
static ALL: [AtomicPtr<Space>; SPACES] = [const { AtomicPtr::new(null_mut()) }; SPACES];

fn spaces() -> impl Iterator<Item = &'static Space> {
    // Acquire: pairs with the exchange in `new_space`.
    // SAFETY: null, or a space that lives for ever.
    ALL.iter().map_while(|space| unsafe { space.load(Ordering::Acquire).as_ref() })
}

/// Returns true if an access at `addr` that faulted is to be tried again.
pub(crate) fn is_back(addr: usize, access: Protection) -> bool {
    let holds = |space: &Space| {
        let span = space.geometry().span;
        (span.start()..span.end()).contains(&(addr as u64 >> 12))
    };
    spaces().any(|space| holds(space) && space.platform().is_back(addr, access))
}

/// The handler of a shootdown, where there are any.
#[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "forgetting reaches all CPUs"))]
pub(crate) fn acknowledge() {
    spaces().for_each(|space| space.platform().acknowledge());
}

/// A space of `pages` pages in a part of the upper half that is the `nth` one's.
pub(crate) fn new_space(
    kernel: &'static Kernel,
    nth: u64,
    pages: u64,
    options: SpaceOptions,
) -> &'static Space {
    let start = arch::SPACES + nth * arch::APART;
    let span = PageRange::from_len(start, pages.min(arch::APART)).expect("pages");
    // SAFETY: each of them has addresses for itself, and this kernel uses nothing else there.
    let platform = unsafe { PageTables::new(kernel, span) }.expect("frames for tables");
    let space: &'static Space =
        Box::leak(Box::new(Space::new(platform, options).expect("memory for metadata")));
    let pointer = core::ptr::from_ref(space).cast_mut();
    // Release: the space is complete.
    let free = |place: &&AtomicPtr<Space>| {
        place.compare_exchange(null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    ALL.iter().find(free).expect("a place for the space");
    space
}
