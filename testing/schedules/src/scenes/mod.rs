//! Scenarios: what two to four threads do to one space, and what holds whatever the schedule.
//!
//! Each ends with everything freed and purged: [`World::finish`].

pub mod areas;
pub mod blocks;
pub mod forks;
pub mod look_ups;
pub mod purges;
pub mod roots;
pub mod shortage;

use crate::world::World;

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
    for _ in 0..3 {
        let addr = world.take(PAGES);
        world.give(addr, PAGES);
    }
}
