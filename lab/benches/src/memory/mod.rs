//! Memory as large programs use it: big areas, pools, slots, stacks, traps, pages that are mapped.
//!
//! Each module is a group of loads, which ours and its peers play in one run.

pub mod alone;
pub mod arrays;
pub mod mappings;
pub mod pages;
pub mod sizes;
pub mod slots;
pub mod stacks;
pub mod steady;
pub mod traps;

use crate::rounds::Limits;
use serde::Serialize;

/// One figure of one design under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load, as `docs/memory.md` names it.
    pub load: String,
    /// The design that was measured: ours, or the name of a peer.
    pub design: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The most that it must be, where it has a bar.
    pub must: Option<f64>,
}

impl Row {
    /// Returns a figure of `design` under `load`.
    pub fn new(load: impl Into<String>, design: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { load: load.into(), design: design.into(), value, unit, must: None }
    }

    /// Sets the most that the figure must be.
    #[must_use]
    pub fn must(self, must: Option<f64>) -> Self {
        Self { must, ..self }
    }
}

/// Loads that are measured together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name on the command line.
    pub name: &'static str,
    /// Measures all of it.
    pub run: fn(&Limits) -> Vec<Row>,
}

/// All groups, in the order in which they are measured.
pub const GROUPS: [Group; 9] = [
    Group { name: "sizes", run: sizes::run },
    Group { name: "steady", run: steady::run },
    Group { name: "arrays", run: arrays::run },
    Group { name: "growth", run: arrays::growth },
    Group { name: "pages", run: pages::run },
    Group { name: "slots", run: slots::run },
    Group { name: "stacks", run: stacks::run },
    Group { name: "traps", run: traps::run },
    Group { name: "mappings", run: mappings::run },
];
