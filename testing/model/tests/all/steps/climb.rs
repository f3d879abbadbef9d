//! A search for states that cost more steps than the states of the other tests.

use super::reference::{Request, walk};
use super::{DENSE, limit};
use vmalloc_map::{AreaMap, PageRange};
use vmalloc_model::{Seeded, Source, env};

/// Pages of the space: 80 leaves, so three levels when all are in use.
const PAGES: u64 = 80 * 256;
const SIZES: [u64; 4] = [1, 2, 7, 129];
/// The alignments that are promised: up to 2 MiB.
const PROMISED_ORDERS: std::ops::RangeInclusive<u32> = 0..=9;

/// One change of the state: an area put in or taken out.
#[derive(Clone, Copy)]
enum Change {
    Alloc(PageRange),
    Free(PageRange),
}

impl Change {
    fn reversed(self) -> Self {
        match self {
            Self::Alloc(range) => Self::Free(range),
            Self::Free(range) => Self::Alloc(range),
        }
    }

    /// Makes the move. Returns whether that was possible.
    fn make(self, map: &mut AreaMap<'_>) -> bool {
        match self {
            Self::Alloc(range) => map.alloc_at(range).is_ok(),
            Self::Free(range) => map.free(range.start()).is_ok(),
        }
    }
}

struct Climber {
    map: AreaMap<'static>,
    source: Seeded,
}

impl Climber {
    fn new(seed: u64) -> Self {
        let span = PageRange::from_len(1 << 31, PAGES).expect("not empty");
        Self { map: AreaMap::new(span).expect("the heap has room"), source: Seeded::new(seed) }
    }

    /// Frees the area at a random page, or puts one of 1…8 pages there.
    fn change(&mut self) -> Option<Change> {
        let page = self.map.span().start() + self.source.below(PAGES);
        let len = 1 + self.source.below(8);
        let change = match self.map.find(page) {
            Some(area) => Change::Free(area),
            None => Change::Alloc(PageRange::from_len(page, len)?),
        };
        change.make(&mut self.map).then_some(change)
    }

    /// Makes every page at an even place busy: the leaves are as dense as can be.
    fn fill(&mut self) {
        for page in (self.map.span().start()..self.map.span().end()).step_by(2) {
            let range = PageRange::from_len(page, 1).expect("not empty");
            self.map.alloc_at(range).expect("the span was free");
        }
    }

    /// Returns the request that costs the most, and its steps.
    fn worst(&mut self) -> (u64, Request) {
        let requests = PROMISED_ORDERS.flat_map(|order| SIZES.map(|pages| Request { pages, order }));
        let costs = requests.map(|request| (self.cost(request), request));
        costs.max_by_key(|(steps, _)| *steps).expect("there are requests")
    }

    fn cost(&mut self, request: Request) -> u64 {
        let placed = self.map.alloc(&request.fit());
        let steps = self.map.last_steps();
        if let Ok(range) = placed {
            self.map.free(range.start()).expect("it was just handed out");
        }
        steps
    }

    /// Keeps each change that does not make the worst request cheaper.
    fn climb(&mut self, tries: usize) -> (u64, Request) {
        let mut best = self.worst();
        for _ in 0..tries {
            let Some(change) = self.change() else { continue };
            let now = self.worst();
            if now.0 >= best.0 {
                best = now;
            } else {
                assert!(change.reversed().make(&mut self.map), "what was changed can be changed back");
            }
        }
        best
    }
}

#[test]
fn no_random_climb_leaves_the_bound() {
    let (first_seed, mut highest) = (env::seed(1), 0);
    for seed in first_seed..first_seed + 4 {
        let mut climber = Climber::new(seed);
        if seed % 2 == 0 {
            climber.fill();
        }
        let (steps, request) = climber.climb(env::ops(8_000));
        let height = climber.map.height();
        println!("VMALLOC_SEED={seed}: {steps} steps for {request:?}, height {height}");
        assert!(steps <= limit(height), "VMALLOC_SEED={seed}: {steps} steps for {request:?}");
        highest = highest.max(steps);
        let ranges: Vec<_> = climber.map.free_ranges().collect();
        let placed = climber.map.alloc(&request.fit()).ok().map(|range| range.start());
        assert_eq!(placed, walk(&ranges, request).start, "VMALLOC_SEED={seed}: {request:?}");
        climber.map.verify().expect("valid");
    }
    // From an empty space both attempts are driven through most of a leaf.
    assert!(highest > DENSE, "the climbs get nowhere: {highest} steps");
}
