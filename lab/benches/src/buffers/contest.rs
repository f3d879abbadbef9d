//! Every allocator through every scene, round by round.

use super::{Buffers, Live, Memory, PAGE_BYTES, Visitor, each, touch};
use crate::rounds::{Limits, medians};
use serde::Serialize;
use std::time::Duration;
use vmalloc_kit::clock::cpu_time;

/// A use of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scene {
    /// Allocate so many pages, touch them, free them.
    Bounce(usize),
    /// Free a random one of 1000 live buffers, allocate another of 1…64 pages in its place, touch
    /// it.
    Steady,
}

/// The columns of the table.
pub const SCENES: [(&str, Scene); 5] = [
    ("3 pages", Scene::Bounce(3)),
    ("16", Scene::Bounce(16)),
    ("100", Scene::Bounce(100)),
    ("1 MiB", Scene::Bounce(256)),
    ("steady", Scene::Steady),
];

const LIVE_BUFFERS: usize = 1000;
const MOST_PAGES: u64 = 64;

/// Turns after which every allocator that keeps pages has kept those that it will, if they fit in
/// the time: those that keep none are steady from the start, and slow.
const WARM_UP_ITERATIONS: usize = 50 * LIVE_BUFFERS;
const WARM_UP_TIME: Duration = Duration::from_secs(1);

/// The result of one allocator in one scene.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which scene.
    pub scene: &'static str,
    /// Which allocator.
    pub allocator: &'static str,
    /// CPU time of one pair, system time included; the median of the rounds.
    pub ns: f64,
    /// That over the first allocator's: ours.
    pub ratio: f64,
}

/// Returns the live set of the steady scene.
pub(super) fn steady<B: Buffers>() -> Live<B> {
    Live::new(B::build(), 5, LIVE_BUFFERS, 1..=MOST_PAGES)
}

fn warm_up<B: Buffers>(steady: &mut Live<B>) {
    let begin = cpu_time();
    for _ in 0..WARM_UP_ITERATIONS / LIVE_BUFFERS {
        steady.replace(LIVE_BUFFERS);
        if cpu_time() - begin > WARM_UP_TIME {
            return;
        }
    }
}

/// Allocates so many bytes, writes to the pages of the first `touched` ones, and frees them.
pub(crate) fn bounce<M: Memory + ?Sized>(memory: &mut M, bytes: usize, touched: usize, iterations: usize) {
    for _ in 0..iterations {
        let buffer = memory.allocate(bytes);
        // SAFETY: the bytes are this loop's own until they are freed, which happens once.
        unsafe {
            touch(buffer, touched);
            memory.free(buffer, bytes);
        }
    }
}

struct Enter<'a> {
    scene: Scene,
    wanted: &'a dyn Fn(&str) -> bool,
    names: Vec<&'static str>,
    players: Vec<Box<dyn FnMut(usize)>>,
}

impl Visitor for Enter<'_> {
    fn visit<B: Buffers + 'static>(&mut self) {
        if (self.wanted)(B::NAME) {
            self.names.push(B::NAME);
            self.players.push(player::<B>(self.scene));
        }
    }
}

fn player<B: Buffers + 'static>(scene: Scene) -> Box<dyn FnMut(usize)> {
    match scene {
        Scene::Bounce(pages) => {
            let (mut buffers, bytes) = (B::build(), pages * PAGE_BYTES);
            Box::new(move |iterations| bounce(&mut buffers, bytes, bytes, iterations))
        }
        Scene::Steady => {
            let mut steady = steady::<B>();
            warm_up(&mut steady);
            Box::new(move |iterations| steady.replace(iterations))
        }
    }
}

/// Measures the allocators whose names are `wanted` in `scene`, in the order of the table.
pub fn run(scene: (&'static str, Scene), limits: &Limits, wanted: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let mut enter = Enter { scene: scene.1, wanted, names: Vec::new(), players: Vec::new() };
    each(&mut enter);
    let medians = medians(&mut enter.players, limits);
    let row = |(allocator, &ns)| Row { scene: scene.0, allocator, ns, ratio: ns / medians[0] };
    enter.names.into_iter().zip(&medians).map(row).collect()
}
