//! A thread for each CPU.

use super::ReplayError;
use super::look::Clocks;
use super::outcome::Outcome;
use super::pace::each;
use super::script::{Script, Step};
use super::stage::{Played, Stage};
use crate::cpu;
use crate::designs::Name;
use crate::lock::{Waits, take_waits};
use crate::workers::{self, all_done};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The results of all threads.
struct Haul<T> {
    brought: Vec<T>,
    played: Played,
    time: Duration,
}

/// All calls of each CPU in a row.
pub(super) fn pace(
    script: &Script,
    name: Name,
    done: &AtomicU64,
    outcome: &mut Outcome,
) -> Result<(), ReplayError> {
    let stage = Stage::new(script, name);
    let work = |steps: &[Step]| {
        let mut played = Played::default();
        take_waits();
        each(steps, done, |step| {
            stage.perform(step.deed, &mut played);
        });
        (played, take_waits())
    };
    let Haul { brought, played, time } = run(&stage, work)?;
    outcome.took(time);
    outcome.waits = brought.into_iter().fold(Waits::default(), Waits::plus);
    stage.end(&played, outcome);
    Ok(())
}

/// Each call by itself. What a free waits for the allocation of its area is not part of it.
pub(super) fn look(
    script: &Script,
    name: Name,
    done: &AtomicU64,
    outcome: &mut Outcome,
) -> Result<(), ReplayError> {
    let stage = Stage::new(script, name);
    let work = |steps: &[Step]| {
        let (mut clocks, mut played) = (Clocks::default(), Played::default());
        each(steps, done, |step| {
            stage.await_step(step);
            clocks.time(&stage, step.deed, &mut played);
        });
        (played, clocks)
    };
    let Haul { brought, played, .. } = run(&stage, work)?;
    let mut all = Clocks::default();
    for clocks in &brought {
        all.alloc.add(&clocks.alloc);
        all.free.add(&clocks.free);
    }
    (outcome.alloc, outcome.free) = ((&all.alloc).into(), (&all.free).into());
    stage.end(&played, outcome);
    Ok(())
}

/// The steps of each CPU.
fn parts(script: &Script) -> Vec<Vec<Step>> {
    let mut parts = vec![Vec::new(); script.cpus()];
    script.steps.iter().for_each(|step| parts[usize::from(step.cpu)].push(*step));
    parts
}

fn run<T: Send>(
    stage: &Stage<'_>,
    work: impl Fn(&[Step]) -> (Played, T) + Sync,
) -> Result<Haul<T>, ReplayError> {
    let parts = parts(stage.script);
    let work = |cpu: usize| {
        let _leaving = Leaving(stage);
        cpu::play(Some(cpu));
        work(&parts[cpu])
    };
    let time = |finished: &_| {
        let start = Instant::now();
        all_done(finished);
        start.elapsed()
    };
    let (all, time) = workers::run(parts.len(), work, time)?;
    let mut haul = Haul { brought: Vec::new(), played: Played::default(), time };
    for one in all {
        let name = || stage.designs.first().map_or("a design", |design| design.name());
        let (played, brought) = one.map_err(|_| ReplayError::Panicked(name()))?;
        haul.played.refused += played.refused;
        haul.played.not_taken += played.not_taken;
        haul.brought.push(brought);
    }
    Ok(haul)
}

/// Tells the others when a thread panics: what they would wait for never comes.
struct Leaving<'a>(&'a Stage<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Relaxed: publishes nothing.
            self.0.gone.store(true, Ordering::Relaxed);
        }
    }
}
