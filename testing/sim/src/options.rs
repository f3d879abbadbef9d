//! The settings of a simulated machine.

use crate::cpu;
use crate::sim::Sim;
use lock_api::RawMutex;
use vmalloc::{MemoryCost, PageRange};

/// The effect of a [`Fault`](crate::Fault), besides its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnViolation {
    /// A panic at once.
    #[default]
    Panic,
    /// Nothing: the machine goes on as hardware would.
    Record,
}

/// A mistake in the flush protocol: of the machine, or of its caller, whose flushes come wrong or
/// not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectedBug {
    /// A flush never tells the last of the other CPUs.
    ForgottenCpu,
    /// Frames are recycled when their pages are unmapped.
    EarlyRecycling,
    /// Protection changes in the page table alone.
    UnflushedProtection,
    /// The caller does not flush.
    DroppedFlush,
    /// The caller flushes the lowest range of a set only.
    LowestFlushedOnly,
    /// The caller flushes after the map that follows.
    DelayedFlush,
}

/// The fate of pages that are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discard {
    /// They are unmapped at once, as where that takes a store.
    #[default]
    Unmaps,
    /// Nothing, as where that takes a system call.
    Keeps,
}

/// The settings of a simulated machine.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) span: PageRange,
    pub(crate) cpus: usize,
    pub(crate) frames: u64,
    pub(crate) devices: u64,
    pub(crate) discard: Discard,
    pub(crate) replaces: bool,
    pub(crate) linear: Option<u64>,
    pub(crate) huge_order: Option<u32>,
    pub(crate) relocates: bool,
    pub(crate) is_dirty: bool,
    pub(crate) memory_cost: MemoryCost,
    pub(crate) max_slack_percent: u8,
    pub(crate) seed: u64,
    pub(crate) tlb_entries: Option<usize>,
    pub(crate) on_violation: OnViolation,
    pub(crate) injected_bug: Option<InjectedBug>,
    pub(crate) current_cpu: fn() -> usize,
    pub(crate) promises_drains: bool,
}

impl Options {
    /// Returns a machine that lends `span`: four CPUs whose TLBs keep everything, a frame for every
    /// page, a panic at every fault.
    pub const fn new(span: PageRange) -> Self {
        Self {
            span,
            cpus: 4,
            frames: span.len(),
            devices: 0,
            discard: Discard::Unmaps,
            replaces: false,
            linear: None,
            huge_order: None,
            relocates: false,
            is_dirty: false,
            memory_cost: MemoryCost::Cheap,
            max_slack_percent: 0,
            seed: 0,
            tlb_entries: None,
            on_violation: OnViolation::Panic,
            injected_bug: None,
            current_cpu: cpu::bound,
            promises_drains: false,
        }
    }

    vmalloc::setters! {
        /// Sets the number of CPUs, at least one.
        cpus(cpus: usize) { cpus = if cpus == 0 { 1 } else { cpus } }

        /// Sets the number of frames.
        frames(frames: u64) { frames = frames }

        /// Adds so many frames of devices: their numbers follow those of the supply.
        devices(devices: u64) { devices = devices }

        /// Sets the fate of pages that are discarded.
        discard(discard: Discard) { discard = discard }

        /// Makes the machine [replace](vmalloc::Geometry::remaps_atomically) what is mapped.
        /// Otherwise that is a fault.
        remaps_atomically() { replaces = true }

        /// Adds a linear map: every frame of the supply can be reached at a page of its own, from
        /// `start` on. These pages lie outside the span, which is not checked.
        linear(start: u64) { linear = Some(start) }

        /// Adds huge pages of `1 << order` pages.
        huge_order(order: u32) { huge_order = Some(order) }

        /// Lets the machine [relocate](vmalloc::Relocate::relocate) pages: for
        /// [`Direct`](crate::Direct).
        relocates() { relocates = true }

        /// Leaves it to the space to [zero](vmalloc::Geometry::maps_zeroed) new pages. Their words
        /// are never zero, so that a reader that expects zeros sees it.
        dirty() { is_dirty = true }

        /// Sets what new memory [costs](vmalloc::Geometry::memory_cost).
        memory_cost(cost: MemoryCost) { memory_cost = cost }

        /// Sets the part of a reused area, in percent, that may stay unused
        /// ([`Geometry::max_slack_percent`](vmalloc::Geometry::max_slack_percent)).
        max_slack_percent(percent: u8) { max_slack_percent = percent }

        /// Sets the seed of all choices of the machine.
        seed(seed: u64) { seed = seed }

        /// Bounds the TLBs to `entries` translations, at least one, with random replacement.
        tlb_entries(entries: usize) { tlb_entries = Some(if entries == 0 { 1 } else { entries }) }

        /// Sets the effect of a fault.
        on_violation(on_violation: OnViolation) { on_violation = on_violation }

        /// Sets another way to tell which CPU runs this, modulo their number, than [`Sim::run_on`]:
        /// for schedulers that run many threads of a test in one of the system's.
        current_cpu(current_cpu: fn() -> usize) { current_cpu = current_cpu }

        /// Promises every drain that the space asks for. Nothing keeps the promise but the test
        /// that calls `Space::drain`.
        promises_drains() { promises_drains = true }
    }

    /// Makes a part of the protocol wrong.
    pub fn injected_bug(self, injected_bug: impl Into<Option<InjectedBug>>) -> Self {
        Self { injected_bug: injected_bug.into(), ..self }
    }

    /// Returns the pages of the linear map.
    pub(crate) fn linear_pages(&self) -> Option<PageRange> {
        PageRange::from_len(self.linear?, self.frames)
    }

    /// Returns the machine.
    pub fn build(self) -> Sim {
        self.build_with()
    }

    /// Returns the machine, with this lock for the space above it.
    pub fn build_with<L: RawMutex + Send + Sync + 'static>(self) -> Sim<L> {
        Sim::with(self)
    }
}
