//! Threads that run out of addresses or frames beside each other.

use super::{done, once};
use crate::machine::Machine;
use crate::world::{World, ended};
use std::sync::Arc;
use std::sync::Mutex;
use vmalloc::AllocError;
use vmalloc::sync::point;
use vmalloc::{Notifier, Space, SpaceOptions};

/// Two threads need all that was freed: the one that finds nothing lazy waits for the other's
/// purge.
///
/// Too large for runs, so that each takes what it needs and no more.
pub fn freed_space_on_its_way() {
    let world = World::new(14, World::tight().lazy_max_pages(100));
    let freed = [world.take(7), world.take(7)];
    freed.iter().for_each(|&addr| world.give(addr, 7));
    world.run(
        [|world: &World| {
            let addr = world.take(7);
            point();
            world.give(addr, 7);
        }; 2],
    );
    world.finish();
}

/// An area that one CPU pooled for later is there for another CPU in need; although a third has
/// just given everything back, so that the second CPU's own purge brings nothing.
pub fn pooled_by_others() {
    let world = World::new(8, World::tight().lazy_max_pages(100));
    // More come along with an area on this CPU then, for which its node has room.
    let addrs = [(); 2].map(|()| world.take(1));
    addrs.iter().for_each(|&addr| world.give(addr, 1));
    world.purge_all();
    let freed = world.take(8);
    world.give(freed, 8);
    let others: [fn(&World); 2] = [|world| once(world, 6), World::purge_all];
    let others = others.map(|body| world.beside(body));
    let addr = world.take(1);
    point();
    world.give(addr, 1);
    others.into_iter().for_each(ended);
    world.finish();
}

/// Areas that a CPU brought along from another's pool, with the one that it took, are there for a
/// third CPU in need, which looks at one pool after the other.
pub fn brought_by_others() {
    let world = World::new(16, World::tight().lazy_max_pages(100));
    world.run([|world| {
        // The first half lies in leaves apart, of which nothing is brought along.
        world.take(8);
        let freed = [(); 6].map(|()| world.take(1));
        freed.iter().for_each(|&addr| world.give(addr, 1));
        let _ = world.drain_once();
    }]);
    let in_need = world.beside(|world| once(world, 4));
    // This CPU comes before the one whose pool it is.
    let addr = world.take(1);
    point();
    world.give(addr, 1);
    ended(in_need);
    world.give(World::start() as usize * World::PAGE, 8);
    world.finish();
}

/// A notifier that holds an area for each that is asked for.
pub(super) struct Cache {
    pub(super) world: World,
    pub(super) areas: Mutex<Vec<usize>>,
}

impl Notifier<Machine> for Cache {
    fn make_room(self: Arc<Self>, _: &Space<Machine>, _: u64) -> u64 {
        let area = self.areas.lock().expect("nobody fails with it").pop();
        area.map_or(0, |addr| {
            self.world.give(addr, 7);
            7
        })
    }
}

/// Two run out of addresses and a cache holds them all: at least one gets what the cache gives up,
/// and no thread hangs.
pub fn notifier_makes_room() {
    let world = World::new(14, World::tight());
    let areas = Mutex::new(vec![world.take(7), world.take(7)]);
    let cache = Arc::new(Cache { world: world.clone(), areas });
    let known: Arc<dyn Notifier<Machine>> = cache.clone();
    world.register_notifier(&known).expect("there is memory");
    let ask = |world: &World| match world.try_take(7) {
        Ok(addr) => {
            world.give(addr, 7);
            true
        }
        // While another asks, no other thread does.
        Err(AllocError::NoSpace(_)) => false,
        Err(error) => panic!("{error}"),
    };
    assert!(done([world.beside(ask), world.beside(ask)]) > 0, "the cache was asked for nothing");
    let left = std::mem::take(&mut *cache.areas.lock().expect("nobody fails with it"));
    left.into_iter().for_each(|addr| world.give(addr, 7));
    world.finish();
}

/// Frames run out: allocations fail with an error or not at all, and nothing is lost.
pub fn memory_runs_out() {
    let options = World::options(16).frames(3);
    let world = World::on(options, SpaceOptions::default().cache_bytes(2 * World::PAGE).lazy_max_pages(4));
    let worker: fn(&World) = |world| {
        for pages in [1, 2] {
            match world.try_take(pages) {
                Ok(addr) => world.give(addr, pages),
                Err(AllocError::Unbacked(_) | AllocError::NoSpace(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    world.run([worker; 3]);
    world.finish();
}
