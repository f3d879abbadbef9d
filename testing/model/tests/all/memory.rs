//! What the records of the area map take: bounded by the areas, whatever the span and wherever they
//! lie.

use vmalloc_map::{AreaMap, Fit, PageRange};
use vmalloc_model::{Seeded, Source, env};

/// 64 TiB of pages of 4 KiB.
const SPAN_PAGES: u64 = 1 << 34;

fn empty(start: u64, pages: u64) -> AreaMap<'static> {
    AreaMap::new(PageRange::from_len(start, pages).expect("not empty")).expect("the heap has room")
}

/// A live set of areas of 1…64 pages.
struct Steady {
    map: AreaMap<'static>,
    live: Vec<u64>,
    random: Seeded,
}

impl Steady {
    fn new(seed: u64) -> Self {
        Self { map: empty(1 << 31, SPAN_PAGES), live: Vec::new(), random: Seeded::new(env::seed(seed)) }
    }

    fn alloc(&mut self) -> u64 {
        let fit = Fit::new(self.random.between(1, 64));
        self.map.alloc(&fit).expect("the span is large enough").start()
    }

    fn grow(&mut self) {
        let area = self.alloc();
        self.live.push(area);
    }

    fn replace(&mut self) {
        let victim = self.random.below(self.live.len() as u64) as usize;
        self.map.free(self.live[victim]).expect("it is live");
        self.live[victim] = self.alloc();
    }

    fn bytes_per_area(&self) -> f64 {
        self.map.metadata_bytes() as f64 / self.live.len() as f64
    }
}

#[test]
fn a_steady_set_takes_at_most_32_bytes_an_area() {
    for areas in [10_000, 100_000] {
        let mut steady = Steady::new(1);
        (0..areas).for_each(|_| steady.grow());
        let filled = steady.bytes_per_area();
        (0..2 * areas).for_each(|_| steady.replace());
        let bytes = steady.bytes_per_area();
        println!("{areas} areas: {filled:.1} bytes each when filled, {bytes:.1} after replacements");
        assert!(bytes <= 32.0, "{bytes} bytes an area of {areas}");
    }
}

/// Arrays grow by a share of what they are: right after that, too.
#[test]
fn a_growing_set_takes_at_most_32_bytes_an_area_at_every_size() {
    let mut steady = Steady::new(2);
    let (mut worst, mut at) = (0.0, 0);
    while steady.live.len() < 150_000 {
        steady.grow();
        (0..2).for_each(|_| steady.replace());
        if steady.live.len() >= 10_000 && steady.bytes_per_area() > worst {
            (worst, at) = (steady.bytes_per_area(), steady.live.len());
        }
    }
    println!("at most {worst:.1} bytes an area, with {at} areas");
    assert!(worst <= 32.0, "{worst} bytes an area of {at}");
}

/// Bytes for each of 1,000 areas of `pages`, at the places that `place` gives for 0, 1, …
fn bytes_of_isolated(pages: u64, mut place: impl FnMut(u64) -> u64) -> usize {
    // No multiple of anything, and room for all of them.
    let start = (1 << 31) + 77;
    let mut map = empty(start, 1 << 40);
    let before = map.metadata_bytes();
    let mut areas = 0;
    for n in 0.. {
        let range = PageRange::from_len(start + place(n), pages).expect("not empty");
        areas += usize::from(map.alloc_at(range).is_ok());
        if areas == 1_000 {
            break;
        }
    }
    (map.metadata_bytes() - before) / areas
}

#[test]
fn an_isolated_huge_area_takes_at_most_512_bytes() {
    // 1 GiB, 16 GiB, 1 TiB.
    for order in [18, 22, 28] {
        let pages = 1 << order;
        let mut random = Seeded::new(env::seed(3));
        let side_by_side = bytes_of_isolated(pages, |n| n * pages);
        let spread = bytes_of_isolated(pages, |n| 2 * n * pages);
        let uneven = bytes_of_isolated(pages, |n| n * (pages + 12_345));
        let anywhere = bytes_of_isolated(pages, |_| random.below((1 << 40) - pages));
        println!(
            "2^{order} pages: {side_by_side} side by side, {spread} spread, {uneven}, {anywhere} anywhere"
        );
        for bytes in [side_by_side, spread, uneven, anywhere] {
            assert!(bytes <= 512, "{bytes} bytes for an area of 2^{order} pages");
        }
    }
}
