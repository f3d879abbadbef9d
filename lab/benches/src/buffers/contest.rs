//! Every allocator through every scene, round by round.

use super::{Buffers, PAGE_BYTES, Visitor, each, touch};
use crate::rounds::{Limits, medians};
use serde::Serialize;
use std::ptr::NonNull;
use std::time::Duration;
use vmalloc_kit::clock::cpu_time;
use vmalloc_kit::rng::Rng;

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

/// A live set of buffers.
pub(super) struct Steady<B: Buffers> {
    buffers: B,
    live: Vec<(NonNull<u8>, usize)>,
    rng: Rng,
}

impl<B: Buffers> Steady<B> {
    pub(super) fn new(buffers: B) -> Self {
        let mut scene = Self { buffers, live: Vec::with_capacity(LIVE_BUFFERS), rng: Rng::new(5) };
        for _ in 0..LIVE_BUFFERS {
            let buffer = scene.allocate();
            scene.live.push(buffer);
        }
        scene
    }

    fn allocate(&mut self) -> (NonNull<u8>, usize) {
        let bytes = self.rng.between(1, MOST_PAGES) as usize * PAGE_BYTES;
        let buffer = self.buffers.allocate(bytes);
        // SAFETY: the allocator has just handed out these bytes.
        unsafe { touch(buffer, bytes) };
        (buffer, bytes)
    }

    /// Replaces `iterations` random buffers. The random numbers are drawn as it goes: some 3 ns of
    /// each iteration.
    pub(super) fn play(&mut self, iterations: usize) {
        for _ in 0..iterations {
            let slot = self.rng.below(LIVE_BUFFERS as u64) as usize;
            let (buffer, bytes) = self.live[slot];
            // SAFETY: the buffer is live, and replaced in the set right below.
            unsafe { self.buffers.free(buffer, bytes) };
            self.live[slot] = self.allocate();
        }
    }

    fn warm_up(&mut self) {
        let begin = cpu_time();
        for _ in 0..WARM_UP_ITERATIONS / LIVE_BUFFERS {
            self.play(LIVE_BUFFERS);
            if cpu_time() - begin > WARM_UP_TIME {
                return;
            }
        }
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live.iter().map(|&(_, bytes)| bytes).sum()
    }
}

impl<B: Buffers> Drop for Steady<B> {
    fn drop(&mut self) {
        for &(buffer, bytes) in &self.live {
            // SAFETY: the set holds live buffers only, and ends here.
            unsafe { self.buffers.free(buffer, bytes) };
        }
    }
}

fn bounce<B: Buffers>(buffers: &mut B, pages: usize, iterations: usize) {
    let bytes = pages * PAGE_BYTES;
    for _ in 0..iterations {
        let buffer = buffers.allocate(bytes);
        // SAFETY: the bytes are this loop's own until they are freed, which happens once.
        unsafe {
            touch(buffer, bytes);
            buffers.free(buffer, bytes);
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
    let mut buffers = B::build();
    match scene {
        Scene::Bounce(pages) => Box::new(move |iterations| bounce(&mut buffers, pages, iterations)),
        Scene::Steady => {
            let mut steady = Steady::new(buffers);
            steady.warm_up();
            Box::new(move |iterations| steady.play(iterations))
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
