//! Each call by itself, by one thread that plays every CPU: latencies, and the state over time.

use super::outcome::{Outcome, Sample, WindowOutcome};
use super::script::{Deed, Script, Step};
use super::stage::{Did, Played, Stage};
use crate::cpu;
use crate::designs::Name;
use crate::times::Times;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Samples of the state: the counts of a design may take long.
const SAMPLES: usize = 200;

/// Times of both kinds of calls.
#[derive(Debug, Default)]
struct Clocks {
    alloc: Times,
    free: Times,
}

/// The busy areas of a window.
#[derive(Debug, Default)]
struct Busy {
    ends: BTreeMap<u64, u64>,
    pages: u64,
    peak_pages: u64,
    peak_areas: u64,
    peak_span: u64,
}

impl Busy {
    fn took(&mut self, start: u64, pages: u64) {
        self.ends.insert(start, start + pages);
        self.pages += pages;
        self.peak_pages = self.peak_pages.max(self.pages);
        self.peak_areas = self.peak_areas.max(self.ends.len() as u64);
        self.peak_span = self.peak_span.max(self.span());
    }

    fn gave(&mut self, start: u64) {
        self.pages -= self.ends.remove(&start).map_or(0, |end| end - start);
    }

    fn span(&self) -> u64 {
        match (self.ends.first_key_value(), self.ends.last_key_value()) {
            (Some((first, _)), Some((_, last))) => last - first,
            _ => 0,
        }
    }

    fn tell(&self, window: &mut WindowOutcome) {
        window.peak_span_pages = self.peak_span;
        window.peak_busy_pages = self.peak_pages;
        window.peak_busy_areas = self.peak_areas;
    }
}

pub(super) fn run(script: &Script, name: Name, done: &AtomicU64, outcome: &mut Outcome) {
    let stage = Stage::new(script, name);
    let (mut clocks, mut played) = (Clocks::default(), Played::default());
    let mut busy: Vec<Busy> = script.windows.iter().map(|_| Busy::default()).collect();
    let every = script.steps.len().div_ceil(SAMPLES).max(1);
    for (index, steps) in script.steps.chunks(every).enumerate() {
        for step in steps {
            look(&stage, step, &mut clocks, &mut played, &mut busy);
        }
        sample(&stage, (index * every + steps.len()) as u64, &busy, outcome);
        // Relaxed: for people to look at.
        done.fetch_add(steps.len() as u64, Ordering::Relaxed);
    }
    (outcome.alloc, outcome.free) = ((&clocks.alloc).into(), (&clocks.free).into());
    busy.iter().zip(&mut outcome.windows).for_each(|(busy, window)| busy.tell(window));
    stage.end(&played, outcome);
    cpu::play(None);
}

fn look(stage: &Stage<'_>, step: &Step, clocks: &mut Clocks, played: &mut Played, busy: &mut [Busy]) {
    cpu::play(Some(step.cpu.into()));
    let start = Instant::now();
    let did = stage.perform(step.deed, played);
    let time = start.elapsed();
    let (Deed::Alloc { shape, .. } | Deed::Free { shape, .. }) = step.deed else { return };
    let shape = stage.script.shape(shape);
    let busy = &mut busy[shape.window as usize];
    match did {
        Did::Alloc(page) => busy.took(page, shape.ask.pages),
        Did::Free(page) => busy.gave(page),
        Did::Nothing => {}
    }
    match step.deed {
        Deed::Alloc { .. } => clocks.alloc.record(time),
        _ if did != Did::Nothing => clocks.free.record(time),
        _ => {}
    }
}

fn sample(stage: &Stage<'_>, calls: u64, busy: &[Busy], outcome: &mut Outcome) {
    let mut lazy = 0;
    for ((design, busy), window) in stage.designs.iter().zip(busy).zip(&mut outcome.windows) {
        let counts = design.counts();
        lazy += counts.lazy_pages;
        window.samples.push(Sample {
            calls,
            busy_pages: busy.pages,
            span_pages: busy.span(),
            lazy_pages: counts.lazy_pages,
            pooled_pages: counts.pooled_pages,
            largest_free_pages: counts.largest_free_pages,
        });
    }
    outcome.peak_lazy_pages = outcome.peak_lazy_pages.max(lazy);
}
