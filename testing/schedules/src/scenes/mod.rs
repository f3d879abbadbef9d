//! Scenarios: what two to four threads do to one space, and what holds whatever the schedule.
//!
//! Each ends with everything freed and purged: [`World::finish`].

pub mod areas;
pub mod blocks;
pub mod forks;
pub mod groups;
pub mod look_ups;
pub mod purges;
pub mod roots;
pub mod shortage;

use crate::world::{World, ended};
use shuttle::thread::JoinHandle;
use vmalloc::sync::point;

/// Waits for threads, and returns how many have done it.
fn done<const N: usize>(threads: [JoinHandle<bool>; N]) -> usize {
    threads.map(ended).into_iter().filter(|is_done| *is_done).count()
}

/// Takes and gives areas of one and two pages.
fn work(world: &World) {
    let first = world.take(1);
    let second = world.take(2);
    world.give(first, 1);
    let third = world.take(1);
    world.give(second, 2);
    world.give(third, 1);
}

/// Takes areas and frees them as an interrupt would.
fn free_at_once(world: &World) {
    let areas = [world.take(1), world.take(2)];
    world.give_atomic(areas[0], 1);
    let third = world.take(1);
    world.give_atomic(areas[1], 2);
    world.give(third, 1);
}

/// Takes an area of `pages` pages and gives it back, a few times.
fn come_and_go<const PAGES: u64>(world: &World) {
    (0..3).for_each(|_| once(world, PAGES));
}

/// Takes an area of `pages` pages and gives it back.
fn once(world: &World, pages: u64) {
    let addr = world.take(pages);
    world.give(addr, pages);
}

/// Holds everything for a while, as a fork does.
fn hold(world: &World) {
    world.quiesce();
    point();
    // SAFETY: this thread has just called `quiesce`.
    unsafe { world.resume() };
}
