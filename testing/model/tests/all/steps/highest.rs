//! The highest place takes as few steps as the lowest: one node a level and one leaf, in which at
//! most [`DENSE`] ranges are looked at one by one, or all at once in 13 steps.

use super::holes::{Build, Holes, family};
use super::reference::Request;
use super::{DENSE, every_request};
use vmalloc_map::{AreaMap, PageRange, Policy};
use vmalloc_model::Ask;

/// Returns the most steps without limits.
fn limit(height: u32) -> u64 {
    u64::from(height) + DENSE
}

/// Returns the most steps with an upper limit, which adds the leaf it lies in and the way up from
/// there.
fn limit_from_within(height: u32) -> u64 {
    limit(height) + u64::from(height) + DENSE
}

#[test]
fn the_highest_place_is_found_in_logarithmic_steps() {
    let mut worst = (0, 0);
    for holes in family(10_000) {
        for build in [Build::Ascending, Build::Shuffled] {
            let mut map = holes.map(build);
            for request in every_request() {
                let steps = measure(&mut map, &holes, request, holes.span.end());
                assert!(steps <= limit(map.height()), "{}: {steps} steps for {request:?}", holes.name);
                worst.0 = steps.max(worst.0);
                for upper in upper_limits(&holes) {
                    let steps = measure(&mut map, &holes, request, upper);
                    let most = limit_from_within(map.height());
                    assert!(steps <= most, "{}: {steps} steps for {request:?} below {upper}", holes.name);
                    worst.1 = steps.max(worst.1);
                }
            }
        }
    }
    println!("at most {} steps, {} below an upper limit", worst.0, worst.1);
}

/// Returns the steps to the right answer.
fn measure(map: &mut AreaMap<'_>, holes: &Holes, request: Request, upper: u64) -> u64 {
    let limits = PageRange::new(holes.span.start(), upper);
    let ask = Ask { limits, policy: Policy::Highest, ..request.ask() };
    let placed = map.alloc(&ask.fit()).ok().map(|range| range.start());
    let steps = map.last_steps();
    assert_eq!(placed, last_below(&holes.ranges, upper, request), "{}: {ask:?}", holes.name);
    if let Some(start) = placed {
        map.free(start).expect("it was just handed out");
    }
    steps
}

/// Returns upper limits in a free range, behind it, and at the start of the next one.
fn upper_limits(holes: &Holes) -> [u64; 4] {
    let middle = holes.ranges[holes.ranges.len() / 2];
    [holes.span.end() - 1, middle.start() + 1, middle.end() - 1, middle.end()]
        .map(|upper| upper.max(holes.span.start() + 1))
}

fn last_below(ranges: &[PageRange], upper: u64, request: Request) -> Option<u64> {
    ranges.iter().rev().find_map(|range| {
        let start = range.end().min(upper).checked_sub(request.pages)? >> request.order << request.order;
        (start >= range.start()).then_some(start)
    })
}
