//! The loads.

use super::stage::{Area, Stage};
use vmalloc_kit::rng::Rng;

/// A use of a space.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Its name in tables and budgets.
    pub name: &'static str,
    /// The CPUs that take part.
    pub(super) cpus: usize,
    /// True if new memory costs much, as on Linux; in kernels it costs little.
    pub(super) is_dear: bool,
    pub(super) play: fn(&mut Stage),
}

const fn load(name: &'static str, cpus: usize, is_dear: bool, play: fn(&mut Stage)) -> Load {
    Load { name, cpus, is_dear, play }
}

/// All loads.
pub const LOADS: [Load; 12] = [
    load("steady 1-256", 2, true, |stage| steady(stage, 2000, [1, 256], 200_000, Frees::OnTheSameCpu)),
    load("steady 1-64", 2, true, |stage| steady(stage, 10_000, [1, 64], 300_000, Frees::OnTheSameCpu)),
    load("relay", 2, true, |stage| steady(stage, 2000, [1, 64], 200_000, Frees::OnAnotherCpu)),
    load("migrate", 4, true, |stage| steady(stage, 4000, [1, 64], 300_000, Frees::AsTheThreadMoves)),
    load("large", 2, true, |stage| steady(stage, 40, [300, 4000], 40_000, Frees::OnTheSameCpu)),
    load("phases", 2, true, phases),
    load("grow", 2, true, grow),
    load("sorts", 2, true, sorts),
    load("in order", 2, true, in_order),
    load("arrays", 2, true, arrays),
    load("cheap", 2, false, |stage| steady(stage, 10_000, [1, 64], 300_000, Frees::OnTheSameCpu)),
    load("cheap relay", 2, false, |stage| steady(stage, 2000, [1, 64], 200_000, Frees::OnAnotherCpu)),
];

/// The CPU on which an area is freed that another takes the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frees {
    OnTheSameCpu,
    /// One CPU allocates, another frees.
    OnAnotherCpu,
    /// One thread does both; the scheduler moves it now and then to one of four CPUs.
    AsTheThreadMoves,
}

/// Draws a size from `low` to `high - 1`, each octave above `low` as likely as the next. Whole
/// numbers alone: a logarithm would differ in its last bit from machine to machine.
fn draw(rng: &mut Rng, [low, high]: [u64; 2]) -> u64 {
    let octaves = (high / low).ilog2() + u32::from(!(high / low).is_power_of_two());
    loop {
        let base = low << rng.below(u64::from(octaves));
        let pages = base + rng.below(base);
        if pages < high {
            return pages;
        }
    }
}

fn take_any(rng: &mut Rng, live: &mut Vec<Area>) -> Area {
    live.swap_remove(rng.below(live.len() as u64) as usize)
}

/// Replaces random ones of so many live areas.
fn steady(stage: &mut Stage, most: usize, sizes: [u64; 2], allocations: usize, frees: Frees) {
    let (mut rng, mut live) = (Rng::new(1), Vec::with_capacity(most));
    for _ in 0..allocations {
        if frees == Frees::AsTheThreadMoves && rng.below(100) == 0 {
            super::played::turn_to(rng.below(4) as usize);
        }
        if live.len() == most {
            let area = take_any(&mut rng, &mut live);
            turn(frees, 1);
            stage.free(area);
        }
        turn(frees, 0);
        live.push(stage.alloc(draw(&mut rng, sizes)));
    }
    stage.free_all(live);
}

fn turn(frees: Frees, cpu: usize) {
    if frees == Frees::OnAnotherCpu {
        super::played::turn_to(cpu);
    }
}

/// A program whose sizes double, three times from the start, and whose memory has a bound.
fn phases(stage: &mut Stage) {
    const MOST_PAGES: u64 = 16_384;
    const MOST_AREAS: usize = 3000;
    let (mut rng, mut live, mut in_use) = (Rng::new(2), Vec::<Area>::new(), 0);
    for size in (0..3).flat_map(|_| (0..9).map(|order| 1 << order)) {
        for _ in 0..6000 {
            let pages = draw(&mut rng, [size, 2 * size]);
            while in_use + pages > MOST_PAGES || live.len() == MOST_AREAS {
                let area = take_any(&mut rng, &mut live);
                in_use -= area.pages;
                stage.free(area);
            }
            in_use += pages;
            live.push(stage.alloc(pages));
        }
    }
    stage.free_all(live);
}

/// One buffer after another grows by half as often as it has to, each time into a new area.
fn grow(stage: &mut Stage) {
    let mut rng = Rng::new(3);
    for _ in 0..600 {
        let most = draw(&mut rng, [64, 16_384]);
        let mut buffer = stage.alloc(rng.between(1, 8));
        while buffer.pages < most {
            let larger = stage.alloc(buffer.pages * 3 / 2 + 1);
            stage.free(std::mem::replace(&mut buffer, larger));
        }
        stage.free(buffer);
    }
}

/// 128 MiB of small areas of one size, and then of a few large ones, in turn.
fn sorts(stage: &mut Stage) {
    const PAGES: u64 = 32_768;
    let mut rng = Rng::new(4);
    for _ in 0..40 {
        let small = rng.between(8, 127);
        fill_and_free(stage, small, PAGES.div_ceil(small));
        let large = rng.between(4096, 12_287);
        fill_and_free(stage, large, PAGES / large);
    }
}

/// 64 MiB of areas of one size, freed in the order in which they came; then of a size two and a
/// half times as large.
fn in_order(stage: &mut Stage) {
    let mut rng = Rng::new(5);
    for _ in 0..12 {
        let mut pages = 4;
        while pages <= 250 {
            fill_and_free(stage, pages, 16_384u64.div_ceil(pages));
            pages = pages * 5 / 2 + rng.below(2);
        }
    }
}

fn fill_and_free(stage: &mut Stage, pages: u64, count: u64) {
    let areas = (0..count).map(|_| stage.alloc(pages)).collect();
    stage.free_all(areas);
}

/// 200 arrays that double four times, all of them before the old ones go.
fn arrays(stage: &mut Stage) {
    let mut rng = Rng::new(6);
    for _ in 0..300 {
        let mut live: Vec<Area> = (0..200).map(|_| stage.alloc(rng.between(2, 7))).collect();
        for _ in 0..4 {
            let larger = live.iter().map(|area| stage.alloc(area.pages * 2)).collect();
            stage.free_all(std::mem::replace(&mut live, larger));
        }
        stage.free_all(live);
    }
}
