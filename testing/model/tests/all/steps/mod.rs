//! Exact lowest fit in logarithmic steps, at every alignment: shown by counting, not by a clock.
//!
//! A step is a tree node, a free range, or a word of a dense leaf that the search looks at
//! (`AreaMap::last_steps`). What an allocation or a free changes once the place is known is not
//! counted: that is two leaves at most and the ways from them to the root, unless an array of
//! records grows ([`growth`]).
//!
//! # The bound
//! Rooms answer exactly for every alignment up to 2^13 pages, so a search without limits
//! - looks at one node a level: `height` steps; it never turns back, and where nothing fits, the
//!   root says so;
//! - looks at one leaf. If at most [`DENSE`] free ranges start there, each is looked at once by the
//!   attempt to place and cut in one pass, and once more where that attempt can't finish:
//!   `2 × (DENSE + 1)` steps, the end of a walk counted as one.
//! - In any other leaf it looks at all ranges at once: one step, at most eight doublings up to the
//!   leaf's 256 pages, and four words: 13 steps, which is less.
//!
//! Together `height + 34` ([`limit`]), and 2 where nothing fits: the root is asked by both
//! attempts. The height is logarithmic in the number of leaves ([`height_limit`]). A walk over the
//! holes takes up to 100,000 steps in the same states.

mod climb;
mod growth;
mod holes;
mod limits;
mod reference;

use holes::{Build, Holes};
use reference::{Request, Walk};
use std::collections::BTreeSet;
use vmalloc_map::Violation;
use vmalloc_map::{AreaMap, FitError};
use vmalloc_model::NaiveMap;

/// Up to this many free ranges of a leaf are looked at one by one, as in `vmalloc-map/src/scan.rs`.
const DENSE: u64 = 16;
/// The largest alignment that rooms know: 2^13 pages. The promise is for 2^9, 2 MiB.
const MAX_ORDER: u32 = 13;
const SIZES: [u64; 11] = [1, 2, 3, 5, 8, 16, 64, 100, 257, 512, 600];

/// Returns the most steps of a search that finds a place, in a tree of `height` levels.
fn limit(height: u32) -> u64 {
    u64::from(height) + 2 * (DENSE + 1)
}

/// The most steps of a search that finds none.
const LIMIT_OF_FAILURE: u64 = 2;

/// Returns the most levels over so many leaves, while none was removed. A split leaves four
/// children or more on both sides, but for nodes at the right edge. So the first child of the root
/// holds `4^(height - 1)` leaves.
fn height_limit(leaves: usize) -> u32 {
    leaves.ilog2() / 2 + 1
}

/// Returns the height limit of a tree from which leaves were removed. Neighbours that lost a child
/// hold seven together (invariant TREE-3 in `vmalloc-map/src/tree/mod.rs`), three and a half each;
/// two each leaves room for those that have lost none.
fn height_limit_of_thinned(leaves: usize) -> u32 {
    leaves.ilog2() + 1
}

/// Returns the leaves that a map needs: one for each 256 aligned pages in which segments start.
fn leaves(map: &AreaMap<'_>) -> usize {
    map.segments().map(|segment| segment.range.start() >> 8).collect::<BTreeSet<_>>().len()
}

fn every_request() -> impl Iterator<Item = Request> {
    (0..=MAX_ORDER).flat_map(|order| SIZES.map(|pages| Request { pages, order }))
}

/// The worst that one state showed.
#[derive(Clone, Debug, Default)]
struct Worst {
    height: u32,
    /// By order of alignment.
    steps: [u64; MAX_ORDER as usize + 1],
    /// Of searches that found nothing.
    failed: u64,
    /// Ranges that a walk over those large enough tries before one is aligned.
    walk: u64,
}

impl Worst {
    fn merge(&mut self, other: &Self) {
        self.height = self.height.max(other.height);
        self.failed = self.failed.max(other.failed);
        self.walk = self.walk.max(other.walk);
        for (most, steps) in self.steps.iter_mut().zip(other.steps) {
            *most = steps.max(*most);
        }
    }
}

/// Measures every request in one state of the map: the right place, and few steps to it.
fn measure(
    map: &mut AreaMap<'_>,
    name: &str,
    reference: impl Fn(Request) -> Walk,
) -> Result<Worst, Violation> {
    let height = map.height();
    let mut worst = Worst { height, ..Worst::default() };
    for request in every_request() {
        let walk = reference(request);
        worst.walk = worst.walk.max(walk.tried);
        let result = map.alloc(&request.fit());
        let steps = map.last_steps();
        assert_eq!(result.as_ref().ok().map(|range| range.start()), walk.start, "{name}: {request:?}");
        match result {
            Ok(range) => {
                assert!(steps <= limit(height), "{name}: {steps} steps for {request:?}, height {height}");
                let most = &mut worst.steps[request.order as usize];
                *most = steps.max(*most);
                assert_eq!(map.free(range.start()), Ok(range), "{name}");
            }
            Err(FitError::NoSpace(_)) => {
                assert!(steps <= LIMIT_OF_FAILURE, "{name}: {steps} steps to refuse {request:?}");
                worst.failed = worst.failed.max(steps);
            }
            Err(error) => panic!("{name}: {request:?}: {error}"),
        }
    }
    map.verify()?;
    Ok(worst)
}

/// Builds a state of the family and measures it.
fn measure_holes(holes: &Holes, build: Build) -> Worst {
    let mut map = holes.map(build);
    let (height, most) = (map.height(), height_limit(leaves(&map)));
    assert!(height <= most, "{}: height {height} over {} leaves", holes.name, leaves(&map));
    measure(&mut map, &holes.name, |request| reference::walk(&holes.ranges, request))
        .unwrap_or_else(|violation| panic!("{}: {violation}", holes.name))
}

fn measure_family(count: u64, builds: &[Build]) {
    let mut worst = Worst::default();
    for holes in holes::family(count) {
        for &build in builds {
            worst.merge(&measure_holes(&holes, build));
        }
    }
    println!("{count} holes: {worst:?}; at most {} steps at height {}", limit(worst.height), worst.height);
    // A search that walks would be caught: it would be above the bound a hundred times over (ten
    // times among only 1,000 holes).
    assert!(
        worst.walk > limit(worst.height) * (count / 100).min(100),
        "a walk tries only {} ranges",
        worst.walk
    );
}

#[test]
fn a_thousand_free_ranges() {
    measure_family(1_000, &[Build::Ascending, Build::Shuffled]);
}

#[test]
fn ten_thousand_free_ranges() {
    measure_family(10_000, &[Build::Ascending, Build::Shuffled]);
}

#[test]
fn a_hundred_thousand_free_ranges() {
    measure_family(100_000, &[Build::Shuffled]);
}

/// The walk that answers are compared with above agrees with the reference allocator.
#[test]
fn the_walk_is_the_reference() {
    for holes in holes::family(150) {
        let mut naive = NaiveMap::new(holes.span);
        for area in holes.areas() {
            naive.alloc_at(area).expect("the span was free");
        }
        for request in every_request() {
            let placed = naive.place(&request.ask()).ok().map(|range| range.start());
            assert_eq!(placed, reference::walk(&holes.ranges, request).start, "{}: {request:?}", holes.name);
        }
    }
}

/// Of a large tree only every third, eighth … leaf is kept.
#[test]
fn tree_height_falls_after_frees() {
    let holes = holes::isolated(100_000, 256);
    for keep in [3, 8, 64] {
        let mut map = holes.map(Build::Shuffled);
        for (index, area) in holes.areas().enumerate() {
            if index % keep != 0 {
                map.free(area.start()).expect("a busy area");
            }
        }
        let (height, leaves) = (map.height(), leaves(&map));
        println!("one of {keep} leaves kept: {leaves} leaves, height {height}");
        assert!(height <= height_limit_of_thinned(leaves), "height {height} over {leaves} leaves");
        let ranges: Vec<_> = map.free_ranges().collect();
        measure(&mut map, "thinned", |request| reference::walk(&ranges, request)).expect("valid");
    }
}
