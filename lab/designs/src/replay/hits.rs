//! Allocations that were served from a pool or a cache: the free ranges are as they were before.
//!
//! A pass of its own, by one thread that plays every CPU: a look at the counts of a design takes as
//! long as some calls, and would be in their times.

use super::outcome::{Hits, Outcome};
use super::script::{Deed, Script};
use super::stage::{Did, Played, Stage};
use crate::cpu;
use crate::designs::Name;

/// Calls that are looked at, for a few seconds at most.
const CALLS: usize = 1 << 20;

/// Counts hits, where the design keeps areas for reuse.
pub(super) fn run(script: &Script, name: Name, outcome: &mut Outcome) {
    let stage = Stage::new(script, name);
    if stage.designs.iter().all(|design| design.free_pages().is_none()) {
        return;
    }
    let (mut played, mut hits) = (Played::default(), Hits::default());
    for step in script.steps.iter().take(CALLS) {
        cpu::play(Some(step.cpu.into()));
        let Deed::Alloc { shape, .. } = step.deed else {
            stage.perform(step.deed, &mut played);
            continue;
        };
        let design = &stage.designs[script.shape(shape).window as usize];
        let before = design.free_pages();
        if let Did::Alloc(_) = stage.perform(step.deed, &mut played) {
            hits.allocs += 1;
            hits.kept += u64::from(design.free_pages() == before);
        }
    }
    outcome.hits = Some(hits);
    cpu::play(None);
}
