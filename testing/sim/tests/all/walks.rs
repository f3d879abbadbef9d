//! Every act of a program with every step failing that it takes: pages, translations, flushes, the
//! heap. The oracle says what an error may change, which is nothing, and at the end all is there.

use vmalloc::{Policy, Request, Space, SpaceOptions};
use vmalloc_model::Seeded;
use vmalloc_programs::machines::{devices, direct, machine, on_direct, on_machine};
use vmalloc_programs::{Program, Walked};
use vmalloc_sim::Point::{
    self, Discard, Flush, Heap, Map, MapFrames, MapHuge, Protect, Relocate, TakeFrames, TakeRun, Unmap,
    UnmapNow,
};
use vmalloc_sim::Sim;
use vmalloc_sim::harness::Simulated;
use vmalloc_subspaces::{Root, Subspace};

/// Steps of acts, each of which has failed in one run at least.
const MET: [(&str, &[Point]); 28] = [
    ("alloc", &[Map, MapHuge, Unmap, Flush, Heap]),
    ("alloc a group", &[Heap]),
    ("alloc code", &[Map, MapHuge, Unmap, Flush, Heap]),
    ("alloc from a node", &[Map]),
    ("alloc shared memory", &[TakeFrames, MapFrames, Heap]),
    ("commit", &[Map, Heap]),
    ("decommit", &[Unmap, Flush, Heap]),
    ("discard", &[Discard, Heap]),
    ("free", &[Unmap, Flush, UnmapNow, Heap]),
    ("grow in place", &[Map, Heap]),
    ("map", &[MapFrames, Heap]),
    ("map runs", &[MapFrames, Heap]),
    ("map a device", &[MapFrames, Heap]),
    ("map for a short while", &[MapFrames, Heap]),
    ("map pages", &[MapFrames]),
    ("map shared memory", &[MapFrames, Heap]),
    ("own a buffer", &[Map, Relocate, Heap]),
    ("own areas", &[Map, Heap]),
    ("own cleared pages", &[Map, Unmap, Discard, Heap]),
    ("own code", &[Map, Protect, Heap]),
    ("own frames", &[TakeFrames, TakeRun, MapFrames, Heap]),
    ("own pages", &[Map, Unmap, Heap]),
    ("protect", &[Protect]),
    ("purge", &[Unmap, Flush, Heap]),
    ("realloc", &[Map, Unmap, Flush, Relocate, Heap]),
    ("reserve", &[Heap]),
    ("shrink in place", &[Unmap, Flush, Heap]),
    ("take frames", &[TakeFrames, TakeRun]),
];

#[test]
fn each_step_of_each_act_may_fail() {
    let mut walked = Walked::new();
    for (seed, options) in (0..).zip(all_options()) {
        let powers = [0b00, 0b01, 0b11, 0b10, 0b01][seed as usize];
        let sim = |pages| machine(pages, powers).build();
        let program = on_machine(devices(&sim(64)));
        walk(&program, seed, || Space::new(sim(1 << 10), options).expect("a space"), &mut walked);
        walk(
            &on_direct(),
            seed,
            || Space::new(direct(1 << 10, seed), options).expect("a space"),
            &mut walked,
        );
        let program = on_machine::<Subspace<Sim>>([]);
        walk(&program, 10 + seed, || part(sim(1 << 11), options), &mut walked);
    }
    for (act, call) in MET.iter().flat_map(|(act, calls)| calls.iter().map(move |call| (*act, *call))) {
        assert!(walked.contains_key(&(act, call)), "{call:?} has not failed in {act:?}: {walked:#?}");
    }
}

fn walk<P: Simulated>(program: &Program<P>, seed: u64, make: impl Fn() -> Space<P>, all: &mut Walked) {
    for act in program.acts() {
        let program = program.clone().live(12).often(act, 300);
        for (met, count) in program.walk(seed, 30, &make) {
            *all.entry(met).or_default() += count;
        }
    }
}

/// Returns a space on the highest half of a machine.
fn part(sim: Sim, options: SpaceOptions) -> Space<Subspace<Sim>> {
    let request = Request::new(1 << 22).policy(Policy::Highest);
    let root = Root::new(sim).expect("a root");
    root.subspace("part", &request, None, options).expect("room")
}

/// Settings with which a freed area becomes lazy, is purged soon, is cached, traps, or is left
/// until there is need.
fn all_options() -> [SpaceOptions; 5] {
    let unmapping = SpaceOptions::default().unmap_on_free();
    let trapping = SpaceOptions::default().trap_on_free(true);
    let lazy = unmapping.lazy_max_pages(1 << 20);
    [unmapping, unmapping.lazy_max_pages(1), SpaceOptions::default(), trapping, lazy]
}

/// Lists, leaves and directories have grown several times, the span is full of what was freed, and
/// steps of several kinds fail at once.
#[test]
fn several_steps_may_fail_at_any_time() {
    for (seed, options) in (0..).zip(all_options()) {
        for pages in [1 << 7, 1 << 10, 1 << 14] {
            let sim = machine(pages, seed).build();
            let program = on_machine(devices(&sim)).live(if pages > 1 << 10 { 400 } else { 40 });
            let space = Space::new(sim, options).expect("a space");
            program.often("fail", 40).play(space, &mut Seeded::new(seed), 4_000);
        }
    }
}
