//! What costs more: limits, which are still logarithmic, and what rooms do not know, which is not.

use super::holes::{Build, Holes, family};
use super::reference::Request;
use super::{DENSE, every_request, leaves, limit};
use vmalloc_map::{AreaMap, PageRange};
use vmalloc_model::Ask;

/// Returns the most steps with a lower limit. It adds the leaf it lies in (at most 13 steps: that
/// is less than twice `DENSE + 1`) and the way up from there, where each level is looked at again.
fn limit_from_within(height: u32) -> u64 {
    limit(height) + u64::from(height) + 2 * (DENSE + 1)
}

#[test]
fn a_lower_limit_is_logarithmic_too() {
    let mut worst = 0;
    for holes in family(10_000) {
        let mut map = holes.map(Build::Shuffled);
        for request in every_request() {
            for lower in lower_limits(&holes) {
                let limits = PageRange::new(lower, holes.span.end());
                let ask = Ask { limits, ..request.ask() };
                let start = place(&mut map, &ask);
                let want = first_from(&holes.ranges, lower, request);
                assert_eq!(start, want, "{}: {ask:?}", holes.name);
                assert!(
                    map.last_steps() <= limit_from_within(map.height()),
                    "{}: {} steps, height {}: {ask:?}",
                    holes.name,
                    map.last_steps(),
                    map.height()
                );
                worst = worst.max(map.last_steps());
            }
        }
    }
    println!("with a lower limit: at most {worst} steps");
}

/// Returns lower limits in a free range, behind it, and at the start of the next one.
fn lower_limits(holes: &Holes) -> [u64; 4] {
    let middle = holes.ranges[holes.ranges.len() / 2];
    [holes.span.start() + 1, middle.start(), middle.end() - 1, middle.end()]
}

/// Returns the start of an area like that, which is given back at once.
fn place(map: &mut AreaMap<'_>, ask: &Ask) -> Option<u64> {
    let start = map.alloc(&ask.fit()).ok()?.start();
    map.free(start).expect("it was just handed out");
    Some(start)
}

fn first_from(ranges: &[PageRange], lower: u64, request: Request) -> Option<u64> {
    ranges.iter().find_map(|range| {
        let start = range.start().max(lower).next_multiple_of(1 << request.order);
        (start + request.pages <= range.end()).then_some(start)
    })
}

/// No bound to be proud of: a phase, a boundary or an alignment above 2^13 pages is not in the
/// rooms, so every range that is large enough may be tried. At least none is tried again and again.
#[test]
fn constraints_unknown_to_summaries_cost_a_walk() {
    let plain = Ask::new(1);
    for ask in [
        Ask { align: 512, phase: 511, ..plain },
        Ask { pages: 2, no_cross: 2, ..plain },
        Ask { align: 1 << 14, ..plain },
    ] {
        let steps = family(10_000).iter().map(|holes| steps_of_walk(holes, &ask)).max();
        println!("{ask:?}: up to {steps:?} steps among 10,000 holes");
    }
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
