//! All calls in a row, by one thread that plays every CPU: the time for all.

use super::outcome::Outcome;
use super::script::Script;
use super::stage::{Played, Stage};
use crate::cpu;
use crate::designs::Name;
use crate::lock::take_waits;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Steps between two signs of progress.
const SIGN: usize = 1 << 14;

pub(super) fn run(script: &Script, name: Name, done: &AtomicU64, outcome: &mut Outcome) {
    let stage = Stage::new(script, name);
    let mut played = Played::default();
    take_waits();
    let start = Instant::now();
    for steps in script.steps.chunks(SIGN) {
        for step in steps {
            cpu::play(Some(step.cpu.into()));
            stage.perform(step.deed, &mut played);
        }
        // Relaxed: for people to look at.
        done.fetch_add(steps.len() as u64, Ordering::Relaxed);
    }
    outcome.took(start.elapsed());
    outcome.waits = take_waits();
    stage.end(&played, outcome);
    cpu::play(None);
}
