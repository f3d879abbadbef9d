//! The settings of a simulated machine.

use crate::cpu;
use crate::sim::Sim;
use lock_api::RawMutex;
use vmalloc::PageRange;

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

/// The ability of pages to change their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RelocateMode {
    /// They can't.
    #[default]
    Unsupported,
    /// They can.
    Moves,
}

/// The behaviour of `map_frames` over mapped pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RemapMode {
    /// Nothing: that is a fault.
    #[default]
    Refuses,
    /// It makes every CPU forget the old translations.
    Replaces,
}

/// The content of new pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum NewPages {
    /// Zeros.
    #[default]
    Zeroed,
    /// Any words, but never zeros: a reader that expects zeros sees that the pages were not
    /// cleared.
    Dirty,
}

/// The settings of a simulated machine.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) span: PageRange,
    pub(crate) cpus: usize,
    pub(crate) frames: u64,
    pub(crate) devices: u64,
    pub(crate) discard: Discard,
    pub(crate) remap: RemapMode,
    pub(crate) linear: Option<u64>,
    pub(crate) huge_order: Option<u32>,
    pub(crate) relocate_mode: RelocateMode,
    pub(crate) new_pages: NewPages,
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
    pub fn new(span: PageRange) -> Self {
        Self {
            span,
            cpus: 4,
            frames: span.len(),
            devices: 0,
            discard: Discard::default(),
            remap: RemapMode::default(),
            linear: None,
            huge_order: None,
            relocate_mode: RelocateMode::default(),
            new_pages: NewPages::default(),
            max_slack_percent: 0,
            seed: 0,
            tlb_entries: None,
            on_violation: OnViolation::default(),
            injected_bug: None,
            current_cpu: cpu::bound,
            promises_drains: false,
        }
    }

    /// Sets the number of CPUs, at least one.
    #[must_use]
    pub fn cpus(mut self, cpus: usize) -> Self {
        self.cpus = cpus.max(1);
        self
    }

    /// Sets the number of frames.
    #[must_use]
    pub fn frames(mut self, frames: u64) -> Self {
        self.frames = frames;
        self
    }

    /// Adds so many frames of devices: their numbers follow those of the supply.
    #[must_use]
    pub fn devices(mut self, devices: u64) -> Self {
        self.devices = devices;
        self
    }

    /// Sets the fate of pages that are discarded.
    #[must_use]
    pub fn discard(mut self, discard: Discard) -> Self {
        self.discard = discard;
        self
    }

    /// Makes the machine [replace](vmalloc::Geometry::remaps_atomically) what is mapped.
    #[must_use]
    pub fn remaps_atomically(mut self) -> Self {
        self.remap = RemapMode::Replaces;
        self
    }

    /// Adds a linear map: every frame of the supply can be reached at a page of its own, from
    /// `start` on. These pages lie outside the span, which is not checked.
    #[must_use]
    pub fn linear(mut self, start: u64) -> Self {
        self.linear = Some(start);
        self
    }

    /// Adds huge pages of `1 << order` pages.
    #[must_use]
    pub fn huge_order(mut self, order: u32) -> Self {
        self.huge_order = Some(order);
        self
    }

    /// Lets the machine [relocate](vmalloc::Relocate::relocate) pages: for
    /// [`Direct`](crate::Direct).
    #[must_use]
    pub fn relocates(mut self) -> Self {
        self.relocate_mode = RelocateMode::Moves;
        self
    }

    /// Leaves it to the space to [zero](vmalloc::Geometry::maps_zeroed) new pages.
    #[must_use]
    pub fn dirty(mut self) -> Self {
        self.new_pages = NewPages::Dirty;
        self
    }

    /// Sets the part of a reused area, in percent, that may stay unused
    /// ([`Geometry::max_slack_percent`](vmalloc::Geometry::max_slack_percent)).
    #[must_use]
    pub fn max_slack_percent(mut self, n: u8) -> Self {
        self.max_slack_percent = n;
        self
    }

    /// Sets the seed of all choices of the machine.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Bounds the TLBs to `entries` translations, at least one, with random replacement.
    #[must_use]
    pub fn tlb_entries(mut self, entries: usize) -> Self {
        self.tlb_entries = Some(entries.max(1));
        self
    }

    /// Sets the effect of a fault.
    #[must_use]
    pub fn on_violation(mut self, on_violation: OnViolation) -> Self {
        self.on_violation = on_violation;
        self
    }

    /// Makes a part of the protocol wrong.
    #[must_use]
    pub fn injected_bug(mut self, injected_bug: impl Into<Option<InjectedBug>>) -> Self {
        self.injected_bug = injected_bug.into();
        self
    }

    /// Sets another way to tell which CPU runs this, modulo their number, than [`Sim::run_on`]: for
    /// schedulers that run many schedulers that run many threads of a test in one of the system's.
    #[must_use]
    pub fn current_cpu(mut self, current_cpu: fn() -> usize) -> Self {
        self.current_cpu = current_cpu;
        self
    }

    /// Promises every drain that the space asks for. Nothing keeps the promise but the test that
    /// calls `Space::drain`.
    #[must_use]
    pub fn promises_drains(mut self) -> Self {
        self.promises_drains = true;
        self
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
