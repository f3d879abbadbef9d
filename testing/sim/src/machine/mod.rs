//! The machine: page table, TLBs, frames, and what is owed to them.
//!
//! A page's way through the machine, and what each step checks:
//!
//! ```text
//!              map                        unmap                       flush
//!   clean ──────────────► mapped ───────────────────► unflushed ─────────────────► clean
//!   DoubleMap             page ─► frame, owner        frame in limbo    FlushedTooLittle
//!   ReusedBeforeFlush     TLBs fill                   TLBs keep         RecycledBeforeFlush
//!   ReusedWhileHeld       StaleAccess                 StaleAccess       NotUnmapped
//!   Aliased
//! ```
//!
//! Frames of users and devices go another way. They stay whose they are whatever happens to the
//! pages that lead to them; discarding is what makes it legal to give them back while a page, or a
//! TLB, still leads there:
//!
//! ```text
//!            map_frames                  discard                        unmap                    flush
//!   clean ───────────────► mapped ──────────────────► discarded ──────────────────► unflushed ─────────────► clean
//!   MappedForeign          │ GivenWhileMapped         ReachedGiven                 NotUnmapped
//!   MappedOver             │ ReachedGiven             as it is, or               ReachedGiven
//!   ReusedBeforeFlush      │ DiscardedUnmapped        unmapped ([`Discard`])
//!        ▲                 ▼                          │
//!        └─────────────────┴── on a machine that replaces, which flushes them then
//! ```
//!
//! Invariants, on any machine that is used rightly; [`Machine::audit`] looks for breaches of M1–M3
//! in every corner:
//! - M1: a frame is reached, by page table and TLBs together, at no page but its owner; but for
//!   pages that are discarded or unflushed, and led to an earlier life of it, when it was a user's,
//!   or that it was relocated from.
//! - M2: a TLB entry agrees with the page table, or its page is unflushed.
//! - M3: a page of the page table owns its frame, or `map_frames` put it there; a frame in limbo is
//!   owned by an unflushed page; the other frames are in the supply or a user's.
//! - M4: at the end no page is mapped or unflushed and no page owns a frame ([`Machine::leaks`]).
//!   What users have taken is theirs.
//!
//! Each check looks at what the hardware would do, not at what the caller meant, and goes on as the
//! hardware would.

mod access;
mod audit;
mod flush;
mod map;
mod map_frames;
mod page_table;
mod protect;
mod relocate;
#[cfg(test)]
mod scripts;
mod supply;
#[cfg(test)]
mod tests;

pub use access::TlbVisibility;

use crate::counts::Counts;
use crate::fault::Fault;
use crate::memory::Memory;
use crate::options::{Discard, Options};
use crate::page_set::PageSet;
use crate::plan::{Plan, Point};
use crate::tlb::Tlb;
use page_table::PageTable;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use vmalloc::{PageRange, PlatformError, PlatformFault};

/// All of the machine that changes.
#[derive(Debug)]
pub(crate) struct Machine {
    options: Options,
    page_table: PageTable,
    tlbs: Vec<Tlb>,
    memory: Memory,
    /// Unmapped, or tried to, and not flushed since.
    unflushed: PageSet,
    /// Discarded, and neither unmapped by a call of `unmap` nor mapped again since.
    idle: PageSet,
    /// Pages that were unmapped, with their frames, which wait for the flush.
    limbo: BTreeSet<(u64, u64)>,
    /// Pages from which frames were relocated, with these, which wait for the flush.
    left: BTreeSet<(u64, u64)>,
    /// Sets whose flush is put off.
    late: Vec<Vec<PageRange>>,
    /// Map calls so far.
    epoch: u64,
    random: SplitMix64,
    /// Pages that these calls refuse.
    pub(crate) refused: Vec<(Point, PageRange)>,
    pub(crate) plan: Plan,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Counts,
}

impl Machine {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            page_table: PageTable::default(),
            tlbs: vec![Tlb::new(options.tlb_entries); options.cpus],
            memory: Memory::new(options.frames, options.devices, options.is_dirty),
            unflushed: PageSet::default(),
            idle: PageSet::default(),
            limbo: BTreeSet::new(),
            left: BTreeSet::new(),
            late: Vec::new(),
            epoch: 0,
            random: SplitMix64::seed_from_u64(options.seed),
            refused: Vec::new(),
            plan: Plan::default(),
            faults: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.tlbs.len()
    }

    pub(crate) fn entropy(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Returns the frame behind `page`, by the page table.
    pub(crate) fn frame(&self, page: u64) -> Option<u64> {
        self.page_table.get(page).map(|entry| entry.frame)
    }

    /// Returns how many pages are mapped.
    pub(crate) fn mapped_pages(&self) -> u64 {
        self.page_table.len() as u64
    }

    fn report(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Returns the error of a call that was made to fail, or could not do better.
    fn refuse(&mut self, call: &'static str, fault: PlatformFault) -> PlatformError {
        self.counts.failed += 1;
        PlatformError { call, fault, code: 0 }
    }

    fn check_ranges(&mut self, call: Point, ranges: &[PageRange]) {
        let span = self.options.span;
        let outside = ranges.iter().filter(|range| !span.covers(range));
        self.faults.extend(outside.map(|&range| Fault::OutsideSpan { call, range, span }));
        // Neighbours may touch: they are joined only while there is memory to do it.
        let wrong = ranges.windows(2).filter(|pair| pair[0].end() > pair[1].start());
        self.faults.extend(wrong.map(|pair| Fault::NotAscending { call, range: pair[0], next: pair[1] }));
    }
}
