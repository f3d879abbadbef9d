//! Contention by the number of nodes, without the CPUs: which would have waited for which, from a
//! schedule that repeats.
//!
//! One thread plays 128 CPUs on a space without memory:
//!
//! ```text
//!   step      order is drawn anew in each                       locks taken, by whom
//!     1       CPU 71   CPU 3    CPU 120  …   a call each  ───►   node 71 | node 3 | node 120, map | …
//!     2       CPU 5    CPU 71   …                        ───►   …
//! ```
//!
//! All calls of one step count as simultaneous. Of the CPUs that take the same lock in a step, each
//! but the first *would have waited*: more than really would, for a lock is held for a fraction of
//! a call. Drains that are asked for are run by a thread of their own, at the beginning of a step;
//! CPUs that take the same locks in that step wait for it.
//!
//! A CPU allocates in one step and frees in another, so areas of many are busy at the same time;
//! whether it begins with the one or the other is drawn, and before anything is counted it makes a
//! number of calls on its own, or all would run out of the same things at once. Locks are all that
//! is counted: an area is freed and reused by an atomic operation on a word beside its address, and
//! neighbours share cache lines of these words. There is no time, so nothing ages.

use crate::played::{self, Later};
use crate::ranges::span;
use crate::recorded_lock::{self, RecordedLock};
use crate::scene::{Freed, LIVE_AREAS, Scene};
use std::collections::HashMap;
use vmalloc::{Space, SpaceOptions};
use vmalloc_kit::null::{Cpus, NullPlatform};
use vmalloc_kit::rng::Rng;

/// CPUs of the machine that is played.
pub const CPUS: usize = 128;
/// The number of the thread that drains.
const DRAINER: u32 = CPUS as u32;

/// How much is played.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps before anything is counted; CPUs are up to half as many ahead of others.
    pub warm_up: usize,
    /// Steps that are counted: a call of each CPU in each.
    pub steps: usize,
}

/// The result of one number of nodes: what CPUs take for a pair, but for what is said of the drain.
#[derive(Clone, Debug)]
pub struct Row {
    /// Nodes of the space.
    pub nodes: usize,
    /// Locks of the CPU's own node, of other nodes, of the map, and the rest.
    pub taken: [f64; 4],
    /// How many hundredths of all these would have had to wait.
    pub waited_percent: f64,
    /// Locks that the drain took, for each pair of the CPUs.
    pub drain: f64,
}

/// Plays `scene`.
///
/// # Panics
/// When the space refuses a request, which it has room for.
pub fn run(scene: Scene, freed: Freed, nodes: usize, limits: &Limits) -> Row {
    play(scene, freed.options(scene.options(SpaceOptions::default().nodes(nodes))), limits)
}

/// Plays `scene` on a space with these settings.
fn play(scene: Scene, options: SpaceOptions, limits: &Limits) -> Row {
    let nodes = options.nodes;
    let mut stage = Stage::new(scene, options);
    stage.warm_up(limits.warm_up);
    (0..limits.steps).for_each(|_| stage.step());
    let Sums { taken, waited, drain } = stage.sums;
    let pairs = (limits.steps * CPUS) as f64 / 2.0;
    let waited_percent = 100.0 * waited as f64 / taken.iter().sum::<u64>().max(1) as f64;
    let taken = taken.map(|count| count as f64 / pairs);
    Row { nodes, taken, waited_percent, drain: drain as f64 / pairs }
}

/// The purpose of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lock {
    Node(usize),
    Map,
    Rest,
}

/// Returns the purpose of a lock by its number, in a space with so many nodes.
fn lock_of(number: u32, nodes: usize) -> Lock {
    // In the order of the space's documentation, which is that of `quiesce`: the purger, the nodes,
    // the stock, a table of annotations for each node, notifiers, frames, and the map. The callers
    // of notifiers have one that is not held in forks.
    match number as usize {
        node if (1..=nodes).contains(&node) => Lock::Node(node - 1),
        map if map == 2 * nodes + 4 => Lock::Map,
        _ => Lock::Rest,
    }
}

/// Sums over all steps.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// As in [`Row`].
    taken: [u64; 4],
    waited: u64,
    drain: u64,
}

/// A space, and the areas that each CPU has in it.
struct Stage {
    scene: Scene,
    nodes: usize,
    space: Space<NullPlatform<RecordedLock, Cpus, Later>>,
    live: Vec<Vec<usize>>,
    /// The slot of the live set that is empty now, for each CPU that is about to allocate.
    empty: Vec<Option<usize>>,
    rng: Rng,
    order: Vec<usize>,
    sums: Sums,
    /// The first in this step to take each lock.
    first: HashMap<u32, u32>,
    taken: Vec<u32>,
}

impl Stage {
    fn new(scene: Scene, options: SpaceOptions) -> Self {
        let nodes = options.nodes;
        recorded_lock::restart();
        played::restart();
        let platform = NullPlatform::new(span(), Cpus(CPUS), Later);
        let space = Space::new(platform, options).expect("metadata for an empty space");
        space.quiesce();
        // SAFETY: this thread has just called `quiesce`.
        unsafe { space.resume() };
        let mut taken = Vec::new();
        recorded_lock::take(&mut taken);
        assert_eq!(taken.len(), 2 * nodes + 5, "a lock more than this module knows of");
        Self {
            scene,
            nodes,
            space,
            live: vec![Vec::new(); CPUS],
            empty: vec![None; CPUS],
            rng: Rng::new(1),
            order: (0..CPUS).collect(),
            sums: Sums::default(),
            first: HashMap::new(),
            taken,
        }
    }

    /// Live sets, as if all had allocated at the same time, and a past for each CPU.
    fn warm_up(&mut self, steps: usize) {
        let each = if self.scene == Scene::W1 { 1 } else { LIVE_AREAS / CPUS };
        for _ in 0..each {
            for cpu in 0..CPUS {
                played::turn_to(cpu);
                let area = self.allocate();
                self.live[cpu].push(area);
            }
        }
        for cpu in 0..CPUS {
            for _ in 0..self.rng.below(steps as u64 + 1) {
                self.call(cpu);
            }
        }
        (0..steps).for_each(|_| self.step());
        self.sums = Sums::default();
    }

    /// A call of each CPU, in an order of its own.
    fn step(&mut self) {
        recorded_lock::take(&mut self.taken);
        self.first.clear();
        if played::take_drain() {
            let _ = self.space.drain().expect("this platform refuses nothing");
            self.note(DRAINER);
        }
        for place in (1..CPUS).rev() {
            self.order.swap(place, self.rng.below(place as u64 + 1) as usize);
        }
        for iteration in 0..CPUS {
            let cpu = self.order[iteration];
            self.call(cpu);
            self.note(cpu as u32);
        }
    }

    /// Frees a random area of the CPU's, or allocates another in its place.
    fn call(&mut self, cpu: usize) {
        played::turn_to(cpu);
        if let Some(slot) = self.empty[cpu].take() {
            self.live[cpu][slot] = self.allocate();
            return;
        }
        let slot = self.rng.below(self.live[cpu].len() as u64) as usize;
        self.empty[cpu] = Some(slot);
        // SAFETY: no memory is behind the area, so nothing can be using it.
        unsafe { self.space.raw().free(self.live[cpu][slot]) }.expect("a live area");
    }

    /// Counts the locks that were just taken.
    fn note(&mut self, who: u32) {
        recorded_lock::take(&mut self.taken);
        let own = who as usize % self.nodes;
        for &number in &self.taken {
            let first = *self.first.entry(number).or_insert(who);
            if who == DRAINER {
                self.sums.drain += 1;
                continue;
            }
            let kind = match lock_of(number, self.nodes) {
                Lock::Node(id) => usize::from(id != own),
                Lock::Map => 2,
                Lock::Rest => 3,
            };
            self.sums.taken[kind] += 1;
            self.sums.waited += u64::from(first != who);
        }
    }

    fn allocate(&mut self) -> usize {
        self.space.raw().alloc(&self.scene.request(&mut self.rng)).expect("space for every scene")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmalloc::Request;
    use vmalloc_kit::null::PAGE_SHIFT;

    /// Long enough for many drains of areas that are unmapped: one in 256 steps.
    const LIMITS: Limits = Limits { warm_up: 2000, steps: 2000 };

    #[test]
    fn locks_have_the_order_of_the_documentation() {
        let mut stage = Stage::new(Scene::W1, SpaceOptions::default().nodes(4).unmap_on_free());
        let mut taken = |act: &dyn Fn(&mut Stage)| {
            act(&mut stage);
            let mut taken = Vec::new();
            recorded_lock::take(&mut taken);
            taken.into_iter().map(|number| lock_of(number, 4)).collect::<Vec<_>>()
        };
        played::turn_to(2);
        let first = taken(&|stage| {
            stage.allocate();
        });
        assert!(first.contains(&Lock::Node(2)) && first.contains(&Lock::Map), "{first:?}");
        assert_eq!(taken(&|stage| stage.space.purge().expect("nothing is refused"))[0], Lock::Rest);
        let reserved = taken(&|stage| {
            stage.space.raw().reserve(&Request::new(5 << PAGE_SHIFT)).expect("space");
        });
        assert!(reserved.contains(&Lock::Rest), "{reserved:?}");
    }

    /// The evidence for per-CPU nodes: with a node for each CPU, CPUs that allocate and free do not
    /// meet.
    #[test]
    fn with_a_node_for_each_cpu_locks_are_uncontended() {
        // Enough for each node to be granted a part of it.
        let row = play(Scene::W1, SpaceOptions::default().nodes(CPUS).cache_bytes(256 << 20), &LIMITS);
        assert_eq!((row.taken[0], row.waited_percent), (2.0, 0.0), "only the own node is touched: {row:?}");
        let row = run(Scene::W1, Freed::Unmapped, CPUS, &LIMITS);
        assert!(row.waited_percent < 1.0, "{row:?}");
        assert!(row.taken[3] == 0.0 && row.drain > 0.0, "{row:?}");
        // One that is out of addresses of a size looks at another before it takes new ones.
        assert!(row.taken[1] < 0.01, "{row:?}");
    }

    #[test]
    fn default_cache_budget_suffices_for_the_most_nodes() {
        let row = run(Scene::W1, Freed::Cached, CPUS, &LIMITS);
        assert!(row.waited_percent < 1.0, "{row:?}");
    }

    #[test]
    fn with_one_node_every_lock_is_contended() {
        for freed in Freed::ALL {
            let row = run(Scene::W1, freed, 1, &LIMITS);
            assert!(row.waited_percent > 90.0, "{row:?}");
        }
    }

    #[test]
    fn a_schedule_repeats() {
        let limits = Limits { warm_up: 5, steps: 10 };
        let row = || format!("{:?}", run(Scene::W5, Freed::Unmapped, 16, &limits));
        assert_eq!(row(), row());
    }
}
