//! Slots of blocks without frames.

use super::scene::{Machine, Scene, configs};
use super::table;
use crate::{set_block_slots, short};
use vmalloc::{AllocError, PlatformError, Space, SpaceOptions};
use vmalloc_sim::harness::{Case, Step};
use vmalloc_sim::{Point, Sim};

/// Slots of eight pages, more than a block has.
const COUNT: usize = 20;

fn empty(scene: Scene) -> (Space<Sim>, Vec<usize>) {
    let space = scene.build().0;
    set_block_slots(&space, 64);
    (space, Vec::with_capacity(COUNT))
}

fn taken(scene: Scene) -> (Space<Sim>, Vec<usize>) {
    let (space, mut slots) = empty(scene);
    alloc(&space, &mut slots).expect("room");
    (space, slots)
}

fn alloc(space: &Space<Sim>, slots: &mut Vec<usize>) -> Result<(), AllocError> {
    while slots.len() < COUNT {
        slots.push(short(space).reserve(8)?);
    }
    Ok(())
}

fn free(space: &Space<Sim>, slots: &mut Vec<usize>) -> Result<(), PlatformError> {
    Sim::run_on(1);
    while let Some(addr) = slots.pop() {
        // SAFETY: nothing uses the addresses any more.
        unsafe { short(space).unreserve(addr, 8) }.expect("it was handed out");
    }
    Sim::run_on(0);
    space.purge()
}

fn release(space: &Space<Sim>, slots: Vec<usize>) {
    // SAFETY: nothing uses the addresses any more.
    slots.into_iter().for_each(|addr| unsafe { short(space).unreserve(addr, 8) }.expect("it was handed out"));
}

fn scene(config: SpaceOptions, machine: Machine) -> Scene {
    Scene::empty(config).on(machine)
}

#[test]
fn recycled_slots() {
    for (config, settings) in configs() {
        // Not on a machine that replaces: see below.
        for machine in [Machine::Plain, Machine::Keeps] {
            let scene = scene(settings, machine);
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

#[test]
fn recycled_slots_on_a_machine_that_replaces() {
    for (config, settings) in configs() {
        let scene = scene(settings, Machine::Replaces);
        table(config, [Case::new("block_free", move || taken(scene), free, release)]);
    }
}
