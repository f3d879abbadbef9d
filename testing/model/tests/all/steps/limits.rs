//! What costs more: limits, which are still logarithmic, and what rooms do not know, which is not.

use super::holes::{Build, Holes, family};
use super::reference::Request;
use super::{DENSE, every_request, leaves, limit};
use vmalloc_map::{AreaMap, PageRange, Policy};
use vmalloc_model::Ask;

/// A search for the place of a request within limits, with the most steps in a tree of a height.
struct Search {
    name: &'static str,
    policy: Policy,
    /// The limit, besides one end of the span, or the page to be near to.
    limits: fn(&Holes) -> Vec<u64>,
    answer: fn(&[PageRange], u64, Request) -> Option<u64>,
    most: fn(u32) -> u64,
}

const SEARCHES: [Search; 4] = [
    // A lower limit adds the leaf it lies in (at most 13 steps: that is less than twice
    // `DENSE + 1`) and the way up from there, where each level is looked at again.
    Search {
        name: "lowest above a limit",
        policy: Policy::Lowest,
        limits: around_the_middle,
        answer: first_from,
        most: |height| limit(height) + u64::from(height) + 2 * (DENSE + 1),
    },
    // The highest place takes as few steps as the lowest: one node a level and one leaf, in which
    // at most `DENSE` ranges are looked at one by one, or all at once in 13 steps.
    Search {
        name: "highest",
        policy: Policy::Highest,
        limits: |holes| vec![holes.span.end()],
        answer: last_below,
        most: |height| u64::from(height) + DENSE,
    },
    // An upper limit adds the leaf it lies in and the way up from there.
    Search {
        name: "highest below a limit",
        policy: Policy::Highest,
        limits: around_the_middle,
        answer: last_below,
        most: |height| 2 * (u64::from(height) + DENSE),
    },
    // The nearest place is one of two: the lowest above the page, and the highest below it.
    Search {
        name: "nearest",
        policy: Policy::Near { to: 0 },
        limits: around_the_middle,
        answer: nearest,
        most: |height| limit(height) + 3 * u64::from(height) + 4 * (DENSE + 1),
    },
];

#[test]
fn places_within_limits_and_the_highest_are_found_in_logarithmic_steps() {
    let mut worst = [0; SEARCHES.len()];
    for (holes, build) in
        family(10_000).iter().flat_map(|holes| [(holes, Build::Ascending), (holes, Build::Shuffled)])
    {
        let mut map = holes.map(build);
        let height = map.height();
        for (search, request) in
            SEARCHES.iter().enumerate().flat_map(|it| every_request().map(move |r| (it, r)))
        {
            let (nth, Search { name, policy, limits, answer, most }) = search;
            for limit in limits(holes) {
                let (start, end) = (holes.span.start(), holes.span.end());
                let (limits, policy) = match policy {
                    Policy::Near { .. } => (None, Policy::Near { to: limit }),
                    Policy::Lowest => (PageRange::new(limit, end), Policy::Lowest),
                    _ => (PageRange::new(start, limit), *policy),
                };
                let ask = Ask { limits, policy, ..request.ask() };
                let (placed, name) = (place(&mut map, &ask), format!("{name}, {}: {ask:?}", holes.name));
                assert_eq!(placed, answer(&holes.ranges, limit, request), "{name}");
                let steps = map.last_steps();
                assert!(steps <= most(height), "{name}: {steps} steps, height {height}");
                worst[nth] = steps.max(worst[nth]);
            }
        }
    }
    println!("at most {worst:?} steps");
}

/// Returns limits near the ends of the span and of a free range.
fn around_the_middle(holes: &Holes) -> Vec<u64> {
    let (middle, first) = (holes.ranges[holes.ranges.len() / 2], holes.span.start() + 1);
    let inside = [middle.start(), middle.start() + 1, middle.end() - 1, middle.end()];
    [&[first], &inside[..], &[holes.span.end() - 1]].concat()
}

/// Returns the start of an area like that, which is given back at once.
fn place(map: &mut AreaMap<'_>, ask: &Ask) -> Option<u64> {
    let start = map.alloc(&ask.fit()).ok()?.start();
    map.free(start).expect("it was just handed out");
    Some(start)
}

fn last_below(ranges: &[PageRange], upper: u64, request: Request) -> Option<u64> {
    ranges.iter().rev().find_map(|range| {
        let start = range.end().min(upper).checked_sub(request.pages)? >> request.order << request.order;
        (start >= range.start()).then_some(start)
    })
}

fn first_from(ranges: &[PageRange], lower: u64, request: Request) -> Option<u64> {
    ranges.iter().find_map(|range| {
        let start = range.start().max(lower).next_multiple_of(1 << request.order);
        (start + request.pages <= range.end()).then_some(start)
    })
}

fn nearest(ranges: &[PageRange], to: u64, request: Request) -> Option<u64> {
    let below = last_below(ranges, to + request.pages - 1, request);
    let both = [first_from(ranges, to, request), below].into_iter().flatten();
    both.min_by_key(|&start| (start.abs_diff(to), start < to))
}

/// No bound to be proud of: an alignment above 2^13 pages is in no summary, so every range that is
/// large enough may be tried. At least none is tried again and again.
#[test]
fn alignments_unknown_to_summaries_cost_a_walk() {
    let ask = Ask { align: 1 << 14, ..Ask::new(1) };
    let steps = family(10_000).iter().map(|holes| steps_of_walk(holes, &ask)).max();
    println!("{ask:?}: up to {steps:?} steps among 10,000 holes");
}

fn steps_of_walk(holes: &Holes, ask: &Ask) -> u64 {
    let mut map = holes.map(Build::Ascending);
    place(&mut map, ask);
    let steps = map.last_steps();
    // To the next leaf leads a way up and one down.
    let nodes = 2 * leaves(&map) as u64 * u64::from(map.height());
    assert!(steps <= 2 * holes.ranges.len() as u64 + nodes, "{}: {steps} steps for {ask:?}", holes.name);
    steps
}
