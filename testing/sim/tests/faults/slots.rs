//! Slots of blocks without frames, under every policy.

use super::scene::{Machine, Scene, configs};
use super::table;
use std::sync::mpsc;
use std::time::Duration;
use vmalloc::block::BlockPolicy::{self, ClassicHead, ClassicTail, Recycle};
use vmalloc::{AllocError, Config, PlatformError, Space};
use vmalloc_sim::harness::{Case, Lasting, Step, walk};
use vmalloc_sim::heap::{self, Shortage};
use vmalloc_sim::{Point, Sim};

/// Slots of eight pages, more than a block has.
const COUNT: usize = 20;

fn empty(scene: Scene) -> (Space<Sim>, Vec<usize>) {
    (scene.build().0, Vec::with_capacity(COUNT))
}

fn taken(scene: Scene) -> (Space<Sim>, Vec<usize>) {
    let (space, mut slots) = empty(scene);
    alloc(&space, &mut slots).expect("room");
    (space, slots)
}

fn alloc(space: &Space<Sim>, slots: &mut Vec<usize>) -> Result<(), AllocError> {
    while slots.len() < COUNT {
        slots.push(space.block_alloc(8)?);
    }
    Ok(())
}

fn free(space: &Space<Sim>, slots: &mut Vec<usize>) -> Result<(), PlatformError> {
    Sim::run_on(1);
    while let Some(addr) = slots.pop() {
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.block_free(addr, 8) }.expect("it was handed out");
    }
    Sim::run_on(0);
    space.purge()
}

fn release(space: &Space<Sim>, slots: Vec<usize>) {
    // SAFETY: nothing uses the addresses any more.
    slots.into_iter().for_each(|addr| unsafe { space.block_free(addr, 8) }.expect("it was handed out"));
}

fn scene(config: Config, policy: BlockPolicy, machine: Machine) -> Scene {
    Scene::empty(config.blocks(64, policy)).on(machine)
}

#[test]
fn recycled_slots() {
    for (config, settings) in configs() {
        // Not on a machine that replaces: see below.
        for machine in [Machine::Plain, Machine::Keeps] {
            let scene = scene(settings, Recycle, machine);
            let flushes = [Point::Unmap, Point::Flush].map(Step::Machine);
            table(
                config,
                [
                    Case::new("block_alloc", move || empty(scene), alloc, release).meets([Step::Heap]),
                    Case::new("block_free", move || taken(scene), free, release).meets(flushes),
                ],
            );
        }
    }
}

/// But for a heap that has nothing any more: see below.
#[test]
fn classic_slots() {
    for (config, settings) in configs() {
        for policy in [ClassicTail, ClassicHead] {
            let scene = scene(settings, policy, Machine::Plain);
            for (step, lasting) in
                Step::all().flat_map(|step| [(step, Lasting::Once), (step, Lasting::Onward)])
            {
                if (step, lasting) != (Step::Heap, Lasting::Onward) {
                    let made = walk(step, lasting, || empty(scene), alloc, release);
                    println!("{config:14} block_alloc, {policy:?}: {step} {lasting:?} {made:?}");
                }
                let freed = walk(step, lasting, || taken(scene), free, release);
                println!("{config:14} block_free, {policy:?}: {step} {lasting:?} {freed:?}");
            }
        }
    }
}

#[test]
fn slots_without_memory_for_a_queue_are_refused() {
    for policy in [ClassicTail, ClassicHead] {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let (space, mut slots) = empty(scene(Config::default(), policy, Machine::Plain));
            for nth in 1..12 {
                let (result, _) = heap::short_of(Shortage::From(nth), || alloc(&space, &mut slots));
                let _ = done.send(result.is_err());
            }
        });
        for _ in 1..12 {
            let refused = is_done.recv_timeout(Duration::from_secs(5));
            assert!(refused.is_ok(), "{policy:?}: it does not come back");
        }
    }
}

#[test]
fn recycled_slots_on_a_machine_that_replaces() {
    for (config, settings) in configs() {
        let scene = scene(settings, Recycle, Machine::Replaces);
        table(config, [Case::new("block_free", move || taken(scene), free, release)]);
    }
}
