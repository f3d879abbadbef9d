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
//! Invariants, on any machine that is used rightly; [`Machine::audit`] looks for breaches of M1–M3 in every corner:
//! - M1: a frame is reached, by page table and TLBs together, at no page but its owner.
//! - M2: a TLB entry agrees with the page table, or its page is unflushed.
//! - M3: a page of the page table owns its frame; a frame in limbo is owned by an unflushed page; the
//!   other frames are in the supply.
//! - M4: at the end no page is mapped or unflushed and every frame is in the supply ([`Machine::leaks`]).
//!
//! Each check looks at what the hardware would do, not at what the caller meant, and goes on as the hardware would.

mod access;
mod audit;
mod flush;
mod map;
#[cfg(test)]
mod tests;

pub use access::Sight;

use crate::counts::{Counts, Flush};
use crate::fault::Fault;
use crate::frames::Frames;
use crate::options::{Flaw, Options};
use crate::page_set::PageSet;
use crate::plan::{Plan, Point};
use crate::random::Random;
use crate::tlb::{Entry, Tlb};
use std::collections::{BTreeMap, BTreeSet};
use vmalloc::{PageRange, PlatformError, PlatformFault};

/// All of the machine that changes.
#[derive(Debug)]
pub(crate) struct Machine {
    span: PageRange,
    flaw: Option<Flaw>,
    page_table: BTreeMap<u64, Entry>,
    tlbs: Vec<Tlb>,
    frames: Frames,
    /// Unmapped, or tried to, and not flushed since.
    unflushed: PageSet,
    /// Pages that were unmapped, with their frames, which wait for the flush.
    limbo: BTreeSet<(u64, u64)>,
    /// Map calls so far.
    epoch: u64,
    random: Random,
    pub(crate) plan: Plan,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Counts,
    pub(crate) flushes: Vec<Flush>,
}

impl Machine {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            span: options.span,
            flaw: options.flaw,
            page_table: BTreeMap::new(),
            tlbs: vec![Tlb::new(options.tlb_entries); options.cpus],
            frames: Frames::new(options.frames),
            unflushed: PageSet::default(),
            limbo: BTreeSet::new(),
            epoch: 0,
            random: Random::new(options.seed),
            plan: Plan::default(),
            faults: Vec::new(),
            counts: Counts::default(),
            flushes: Vec::new(),
        }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.tlbs.len()
    }

    pub(crate) fn entropy(&mut self) -> u64 {
        self.random.next()
    }

    /// The frame behind `page`, by the page table.
    pub(crate) fn frame(&self, page: u64) -> Option<u64> {
        self.page_table.get(&page).map(|entry| entry.frame)
    }

    fn report(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// The error of a call that was made to fail, or could not do better.
    fn refuse(&mut self, call: &'static str, fault: PlatformFault) -> PlatformError {
        self.counts.failed += 1;
        PlatformError { call, fault, code: 0 }
    }

    fn check_ranges(&mut self, call: Point, ranges: &[PageRange]) {
        let span = self.span;
        let outside = ranges.iter().filter(|range| !span.covers(range));
        self.faults.extend(outside.map(|&range| Fault::OutsideSpan { call, range, span }));
        // Neighbours may touch: they are joined only while there is memory to do it.
        let wrong = ranges.windows(2).filter(|pair| pair[0].end() > pair[1].start());
        self.faults.extend(wrong.map(|pair| Fault::NotAscending { call, range: pair[0], next: pair[1] }));
    }
}
