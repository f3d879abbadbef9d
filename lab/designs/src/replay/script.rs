//! A trace made ready: what to call, in which order, on which CPU.

use super::tally::Tally;
use crate::design::Ask;
use vmalloc::PageRange;

/// A trace, compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) shapes: Vec<Shape>,
    pub(super) windows: Vec<PageRange>,
    /// The most pages that the trace itself used of each window.
    pub(super) placed: Vec<Option<u64>>,
    pub(super) slots: u32,
    /// Areas that the trace does not free: slot and shape.
    pub(super) left: Vec<(u32, u32)>,
    pub(super) cpus: usize,
    /// Designs purge where the steps say so, and nowhere else.
    pub(super) purges_by_steps: bool,
    pub(super) tally: Tally,
}

/// A call of a design, on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) cpu: u16,
    pub(super) deed: Deed,
}

/// Which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    Alloc {
        slot: u32,
        shape: u32,
    },
    Free {
        slot: u32,
        shape: u32,
    },
    Purge,
    /// Memory is short.
    Relieve,
}

/// The request that areas of one shape share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) window: u32,
    pub(super) ask: Ask,
}

impl Script {
    /// Returns what became of the events.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// CPUs that are played.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// The spans of the designs.
    #[must_use]
    pub fn windows(&self) -> &[PageRange] {
        &self.windows
    }

    /// Calls of a design.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.steps.len() as u64
    }

    pub(super) fn shape(&self, index: u32) -> &Shape {
        &self.shapes[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_16_bytes() {
        assert_eq!(size_of::<Step>(), 16);
    }
}
