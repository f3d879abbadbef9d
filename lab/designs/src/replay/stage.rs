//! The designs of a script's windows, and the slots: where a step is done.

use super::outcome::Outcome;
use super::script::{Deed, Script};
use crate::design::{Counts, Design, Setup};
use crate::designs::Name;
use std::cell::Cell;

/// A slot whose area is not allocated yet. No area starts at page 0.
const NOTHING: u64 = 0;
/// A slot whose area was refused.
const REFUSED: u64 = u64::MAX;

/// Designs and slots.
pub(super) struct Stage<'s> {
    pub(super) script: &'s Script,
    pub(super) designs: Vec<Box<dyn Design>>,
    slots: Vec<Cell<u64>>,
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    pub(super) refused: u64,
    /// Areas that a design gave and did not take back.
    pub(super) not_taken: u64,
}

/// The effect of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Did {
    Alloc(u64),
    Free(u64),
    Nothing,
}

impl<'s> Stage<'s> {
    pub(super) fn new(script: &'s Script, name: Name) -> Self {
        let designs = name.build_windows(&setup(script), &script.windows);
        let slots = vec![Cell::new(NOTHING); script.slots as usize];
        Self { script, designs, slots }
    }

    /// Does a step.
    #[inline]
    pub(super) fn perform(&self, deed: Deed, played: &mut Played) -> Did {
        match deed {
            Deed::Alloc { slot, shape } => self.alloc(slot, shape, played),
            Deed::Free { slot, shape } => match self.slots[slot as usize].get() {
                NOTHING | REFUSED => Did::Nothing,
                page => self.free(page, shape, played),
            },
            Deed::Purge => {
                self.designs.iter().for_each(|design| design.purge());
                Did::Nothing
            }
            Deed::Relieve => {
                self.designs.iter().for_each(|design| design.relieve());
                Did::Nothing
            }
        }
    }

    #[inline]
    fn alloc(&self, slot: u32, shape: u32, played: &mut Played) -> Did {
        let shape = self.script.shape(shape);
        let given = self.designs[shape.window as usize].alloc(&shape.ask);
        let page = given.unwrap_or(REFUSED);
        self.slots[slot as usize].set(page);
        if page == REFUSED {
            played.refused += 1;
            return Did::Nothing;
        }
        Did::Alloc(page)
    }

    #[inline]
    fn free(&self, page: u64, shape: u32, played: &mut Played) -> Did {
        let design = &self.designs[self.script.shape(shape).window as usize];
        played.not_taken += u64::from(design.free(page).is_err());
        Did::Free(page)
    }

    /// Ends a run: counts what came of it, frees the rest, and checks that all is free again.
    pub(super) fn end(&self, played: &Played, outcome: &mut Outcome) {
        let counts: Vec<Counts> = self.designs.iter().map(|design| design.counts()).collect();
        outcome.refused = played.refused;
        outcome.purges = counts.iter().map(|counts| counts.purges).sum();
        outcome.missed_fits = counts.iter().map(|counts| counts.missed_fits).sum();
        outcome.longest_hold_areas = counts.iter().map(|counts| counts.longest_hold_areas).max().unwrap_or(0);
        let lazy = counts.iter().map(|counts| counts.lazy_pages).sum();
        outcome.peak_lazy_pages = outcome.peak_lazy_pages.max(lazy);
        if played.not_taken != 0 {
            outcome.complain(format!("{} areas were not taken back", played.not_taken));
        }
        self.check(outcome);
        let busy: u64 = counts.iter().map(|counts| counts.busy_areas).sum();
        let left = self.free_rest(outcome);
        if busy != left {
            outcome.complain(format!("{busy} areas are busy at the end where {left} should be"));
        }
        self.designs.iter().for_each(|design| design.settle());
        self.check(outcome);
        self.designs.iter().for_each(|design| check_free(design.as_ref(), outcome));
    }

    /// Frees what the trace left; how many areas that was.
    fn free_rest(&self, outcome: &mut Outcome) -> u64 {
        let (mut rest, mut left) = (Played::default(), 0);
        for &(slot, shape) in &self.script.left {
            let did = self.perform(Deed::Free { slot, shape }, &mut rest);
            left += u64::from(did != Did::Nothing);
        }
        if rest.not_taken != 0 {
            outcome.complain(format!("{} areas were not taken back at the end", rest.not_taken));
        }
        left
    }

    fn check(&self, outcome: &mut Outcome) {
        for design in &self.designs {
            if let Err(violation) = design.verify() {
                outcome.complain(violation);
            }
        }
    }
}

/// The CPUs of the trace and Linux's threshold for them, or one that is never reached.
fn setup(script: &Script) -> Setup {
    let setup = Setup::with_cpus(script.cpus());
    // No more can be lazy than all windows have.
    let all: u64 = script.windows.iter().map(vmalloc::PageRange::len).sum();
    if script.purges_by_steps { setup.lazy_max(all) } else { setup }
}

/// Everything is one free range.
fn check_free(design: &dyn Design, outcome: &mut Outcome) {
    let (counts, span) = (design.counts(), design.span());
    let whole = counts.busy_areas == 0
        && counts.lazy_pages == 0
        && counts.pooled_pages == 0
        && counts.free_pages == span.len()
        && counts.largest_free_pages == span.len();
    if !whole {
        outcome.complain(format!("of {} pages not all are free again: {counts:?}", span.len()));
    }
}
