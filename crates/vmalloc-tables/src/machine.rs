//! The machine that a kernel lends.

use crate::format::Format;
use core::fmt;
use vmalloc::{DrainReason, Frame, Origin, PageRange, PlatformFault};

/// The most CPUs that a platform can shoot down.
pub const MAX_CPUS: usize = 256;

/// Interrupts of the CPU that runs this.
///
/// # Safety
/// - Between `off` and the `on` that belongs to it no interrupt handler runs on this CPU, and the
///   thread stays on it.
/// - They nest: only the outermost `on` turns interrupts on, and only if they were on before the
///   outermost `off`.
pub unsafe trait Interrupts: 'static {
    /// Turns interrupts off.
    fn off();
    /// Undoes one `off`.
    fn on();
}

/// Runs `body` with interrupts off: on one CPU, which acknowledges no shootdown meanwhile.
#[inline]
pub(crate) fn pinned<I: Interrupts, T>(body: impl FnOnce() -> T) -> T {
    I::off();
    let result = body();
    I::on();
    result
}

/// The CPUs that a machine's [`forget`](Machine::forget) reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The CPU that runs it. Others are interrupted, and run it themselves.
    This,
    /// All CPUs, before it returns: the hardware broadcasts it, or the firmware does.
    All,
}

/// The format of a machine's tables.
pub(crate) type FormatOf<M> = <M as Machine>::Format;

/// A kernel, as far as the platform needs it. The crate's documentation lists further conditions.
///
/// # Safety
/// - [`direct_map`](Self::direct_map) leads to physical memory as described, and
///   [`root`](Self::root) to a page table of the highest level that all CPUs use.
/// - Frames are handed out once, and have no other user until they are given back.
/// - After `forget` and `forget_all` the CPUs that they [reach](Self::reach) hold no translation of
///   the pages, or none at all, not even a global one. Entries that were written before are what
///   those CPUs see from then on.
/// - After `published` all CPUs find the entries that were written before, but for CPUs that keep
///   that a page was not there, whose faults go to [`PageTables::is_back`].
///
/// [`PageTables::is_back`]: crate::PageTables::is_back
pub unsafe trait Machine: Interrupts + Send + Sync {
    /// The format of its tables.
    type Format: Format;

    /// The context of one allocation, which becomes that of the platform
    /// ([`vmalloc::Platform::Context`]): where there are memory nodes, the node to take frames of.
    /// The default asks for none in particular: page tables are taken with it. `()` where there is
    /// nothing to tell.
    type Context: Copy + Default + Send + Sync + 'static;

    /// Returns the CPU that runs this, below [`cpus`](Self::cpus).
    fn cpu(&self) -> usize;

    /// Returns how many CPUs there may be: at most [`MAX_CPUS`]. Constant.
    fn cpus(&self) -> usize;

    /// Returns true if that CPU runs and answers interrupts. One that comes up later calls
    /// [`PageTables::join`](crate::PageTables::join).
    fn is_online(&self, cpu: usize) -> bool;

    /// Returns the word in which the CPU tells how it translates: on x86-64 `CR4`, on AArch64
    /// `ID_AA64MMFR0_EL1`, on RISC-V `satp`. Constant.
    fn translation(&self) -> u64;

    /// Returns the frame of the top-level table. Constant.
    fn root(&self) -> Frame;

    /// Returns the address of physical address 0 in the map of all memory. Constant.
    fn direct_map(&self) -> usize;

    /// Returns how many frames the direct map shows, from frame 0 on. Constant.
    fn frames(&self) -> u64;

    /// Takes frames as `context` says, as many as `frames` has room for, or none. May be called with
    /// interrupts on or off.
    ///
    /// # Errors
    /// [`OutOfMemory`](PlatformFault::OutOfMemory) when they run out, and
    /// [`Unsupported`](PlatformFault::Unsupported) where the machine lacks what `context` asks for.
    fn take_frames(&self, frames: &mut [Frame], context: Self::Context) -> Result<(), PlatformFault>;

    /// Takes `count` consecutive frames from a multiple of `align` on, as `context` says.
    fn take_run(&self, count: u64, align: u64, context: Self::Context) -> Option<Frame>;

    /// Takes frames back.
    ///
    /// # Safety
    /// They were taken, and nothing uses them any more.
    unsafe fn give_frames(&self, frames: &[Frame]);

    /// Returns the origin of `frame`.
    fn origin(&self, frame: Frame) -> Origin;

    /// Returns whether `count` frames from `first` on are all [the supply's](Origin::Supply).
    /// Kernels that note frames in bitmaps answer for many at once.
    fn are_taken(&self, first: Frame, count: u64) -> bool {
        (0..count).all(|nth| self.origin(first.plus(nth)) == Origin::Supply)
    }

    /// Makes CPUs forget the translations of `ranges`, few pages in all. One barrier before and one
    /// behind serve all of them:
    ///
    /// - x86-64: `invlpg` for each page
    /// - AArch64: `dsb ishst`, `tlbi vaae1is` for each page, `dsb ish`, `isb`
    /// - RISC-V: `sfence.vma` for each page
    fn forget(&self, ranges: &[PageRange]);

    /// Makes CPUs forget all translations, global ones included.
    fn forget_all(&self);

    /// Returns the CPUs that `forget` and `forget_all` reach. Constant.
    fn reach(&self) -> Reach {
        Reach::This
    }

    /// Follows when entries of `ranges` have become present. x86-64 needs nothing; AArch64
    /// `dsb ishst` and `isb`; RISC-V without Svvptc `sfence.vma`.
    fn published(&self, ranges: &[PageRange]) {
        let _ = ranges;
    }

    /// Sends the interrupt to `cpu` whose handler calls
    /// [`PageTables::acknowledge`](crate::PageTables::acknowledge). Never called where `forget`
    /// reaches all CPUs.
    fn interrupt(&self, cpu: usize);

    /// Returns how often a CPU is looked at before it counts as lost, a `pause` apart.
    fn blocking(&self) -> u64 {
        1 << 32
    }

    /// Asks for a drain in the background, for [`vmalloc::Platform::drain_later`].
    fn drain_later(&self, due: DrainReason) -> bool {
        let _ = due;
        false
    }

    /// Asks for a drain from an interrupt, for [`vmalloc::Platform::wake_drain`].
    fn wake_drain(&self) -> bool {
        false
    }

    /// Returns a random number.
    fn entropy(&self) -> u64;

    /// Stops the machine.
    fn fatal(&self, damage: &dyn fmt::Display) -> !;
}
