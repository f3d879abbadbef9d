use super::*;
use crate::trace::{Event, Kind};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use vmalloc::PageRange;

fn event(cpu: u32, kind: Kind) -> Event {
    Event { time_ns: None, cpu, task: 7, kind }
}

fn compiled(purges: Purges, kinds: &[Kind]) -> Script {
    let mut compiler = Compiler::new(purges);
    for (index, &kind) in kinds.iter().enumerate() {
        compiler.push(&event(index as u32 % 3, kind)).expect("a short trace");
    }
    let script = compiler.finish();
    assert!(script.tally().adds_up(), "{:?}", script.tally());
    script
}

fn played(script: &Script) -> Outcome {
    let outcome = replay(script, Name::Vmalloc, &AtomicU64::new(0));
    assert_eq!(outcome.complaints, [""; 0]);
    outcome
}

fn alloc(start: u64, pages: u64) -> Kind {
    Kind::Alloc { start, pages, align: 1, within: None }
}

#[test]
fn unmatched_events_are_counted_by_cause() {
    let script = compiled(
        Purges::Own,
        &[
            alloc(100, 5),
            Kind::Free { start: 100 },
            Kind::Free { start: 100 },
            Kind::ChunkMade { base: 5000 },
            Kind::Free { start: 5512 },
            Kind::Failed { pages: 3 },
            Kind::Purge { hull: None, areas: 0 },
            alloc(200, 5),
            alloc(198, 3),
            Kind::Unmap { start: 1000, pages: 1 },
            Kind::Break { end: 77 },
            Kind::Protect { start: 1, pages: 1 },
        ],
    );
    let Tally { replayed, unmatched, ignored, missed_frees, live_at_end, .. } = *script.tally();
    assert_eq!((replayed, missed_frees, live_at_end), (4, 1, 1));
    let expected = Unmatched { free_unknown: 1, free_percpu: 1, unmap_unknown: 1, break_unknown: 1 };
    assert_eq!(unmatched, expected);
    assert_eq!(ignored, Ignored { failed: 1, purges: 1, chunks: 1, queries: 0, protections: 1 });
    let outcome = played(&script);
    assert_eq!((outcome.calls, outcome.refused, outcome.alloc.count, outcome.free.count), (5, 0, 3, 2));
    let window = &outcome.windows[0];
    assert_eq!((window.peak_busy_pages, window.peak_busy_areas), (5, 1));
}

#[test]
fn mappings_are_cut_split_and_moved() {
    let script = compiled(
        Purges::Own,
        &[
            Kind::Map { start: 100, pages: 10 },
            Kind::Unmap { start: 103, pages: 2 },
            Kind::Map { start: 101, pages: 6 },
            Kind::Remap { from: 107, from_pages: 3, to: 200, to_pages: 30 },
            Kind::BreakIs { end: 50 },
            Kind::Break { end: 60 },
            Kind::Break { end: 55 },
            Kind::Break { end: 55 },
        ],
    );
    let tally = script.tally();
    // 100..103 and 105..110; 100..101 and 107..110; none; the heap's 50..55.
    assert_eq!((tally.replayed, tally.splits, tally.live_at_end), (7, 5, 4));
    let outcome = played(&script);
    assert_eq!(outcome.windows[0].samples.last().expect("samples").busy_pages, 1 + 6 + 30 + 5);
}

#[test]
fn areas_stay_in_their_windows() {
    let range = |start, end| PageRange::new(start, end);
    let area = |start, within| Kind::Alloc { start, pages: 10, align: 2, within };
    let script = compiled(
        Purges::Own,
        &[
            area(1000, range(1000, 2000)),
            area(5000, range(4000, 4020)),
            area(5100, range(4010, 4020)),
            area(5200, range(4010, 4020)),
        ],
    );
    assert_eq!(script.windows(), [range(1000, 2000).unwrap(), range(4000, 4020).unwrap()]);
    let outcome = played(&script);
    assert_eq!(outcome.refused, 1);
    assert_eq!(outcome.windows[1].peak_span_pages, 20);
}

#[test]
fn purges_of_the_trace_are_replayed_on_request() {
    let kinds = [alloc(100, 5), Kind::Free { start: 100 }, Kind::Purge { hull: None, areas: 1 }];
    let own = played(&compiled(Purges::Own, &kinds));
    let traced = played(&compiled(Purges::Trace, &kinds));
    assert_eq!((own.purges, traced.purges), (0, 1));
    let lazy = |outcome: &Outcome| outcome.windows[0].samples.last().expect("samples").lazy_pages;
    assert_eq!((lazy(&own), lazy(&traced)), (5, 0));
}

/// Areas that are allocated and freed, more than a threshold has pages.
fn much(pages: u64) -> Vec<Kind> {
    let pair = |at: u64| [alloc(1000 + at * pages, pages), Kind::Free { start: 1000 + at * pages }];
    (0..200).flat_map(pair).collect()
}

#[test]
fn purges_of_the_trace_come_instead_of_those_at_thresholds() {
    // 32 MiB times two for three CPUs are 16,384 pages.
    let mut kinds = much(200);
    let purges = |purges, kinds: &[Kind]| played(&compiled(purges, kinds)).purges;
    assert!(purges(Purges::Own, &kinds) > 1);
    assert_eq!(purges(Purges::Own, &kinds), purges(Purges::Trace, &kinds), "a trace without purges");
    kinds.push(Kind::Purge { hull: None, areas: 200 });
    assert_eq!(purges(Purges::Trace, &kinds), 1);
}

#[test]
fn pressure_comes_after_every_so_many_calls_and_empties_pools() {
    let kinds: Vec<_> = (0..9).map(|at| alloc(1000 + 9 * at, 5)).collect();
    let frees = (0..8).map(|at| Kind::Free { start: 1000 + 9 * at });
    let kinds: Vec<_> =
        kinds.into_iter().chain(frees).chain([Kind::Purge { hull: None, areas: 8 }]).collect();
    let script = |calls| {
        let mut compiler = Compiler::new(Purges::Trace);
        if let Some(calls) = std::num::NonZeroU64::new(calls) {
            compiler = compiler.pressure_every(calls);
        }
        kinds.iter().for_each(|&kind| compiler.push(&event(0, kind)).expect("short"));
        compiler.finish()
    };
    for (calls, relieved, pooled) in [(0, 0, 40), (100, 0, 40), (18, 1, 0), (6, 3, 0)] {
        let script = script(calls);
        assert_eq!(script.calls(), 18 + relieved);
        assert!(script.tally().adds_up());
        let outcome = replay(&script, Name::Nodes, &AtomicU64::new(0));
        let last = outcome.windows[0].samples.last().expect("samples");
        assert_eq!((last.pooled_pages, outcome.complaints), (pooled, vec![]));
    }
}

#[test]
fn hits_are_allocations_that_leave_the_free_ranges_as_they_are() {
    let kinds = [
        alloc(100, 5),
        Kind::Free { start: 100 },
        Kind::Purge { hull: None, areas: 1 },
        alloc(100, 5),
        alloc(200, 7),
    ];
    let script = compiled(Purges::Trace, &kinds[..]);
    let hits = |name| replay(&script, name, &AtomicU64::new(0)).hits;
    assert_eq!(hits(Name::Augmented), None);
    // The CPUs of the steps differ: the pool is that of the one that asked.
    assert_eq!(hits(Name::Nodes), Some(Hits { allocs: 3, kept: 1 }));
    assert!((hits(Name::Nodes).expect("hits").percent() - 33.3).abs() < 0.1);
}

#[test]
fn an_empty_trace_is_replayed() {
    assert_eq!(played(&compiled(Purges::Own, &[])).calls, 0);
}

/// Kinds over few pages, so that they meet.
fn kind() -> impl Strategy<Value = Kind> {
    let run = || (1_u64..60, 1_u64..20);
    let window = (1_u64..40, 10_u64..60).prop_map(|(start, pages)| PageRange::from_len(start, pages));
    prop_oneof![
        4 => (run(), 0..3_u32, prop_oneof![Just(None), window])
            .prop_map(|((start, pages), order, within)| Kind::Alloc { start, pages, align: 1 << order, within }),
        4 => (1_u64..60).prop_map(|start| Kind::Free { start }),
        1 => Just(Kind::Purge { hull: None, areas: 0 }),
        1 => (1_u64..60).prop_map(|base| Kind::ChunkMade { base }),
        2 => run().prop_map(|(start, pages)| Kind::Map { start, pages }),
        2 => run().prop_map(|(start, pages)| Kind::Unmap { start, pages }),
        1 => (run(), run()).prop_map(|((from, from_pages), (to, to_pages))| Kind::Remap {
            from, from_pages, to, to_pages
        }),
        1 => (1_u64..60).prop_map(|end| Kind::BreakIs { end }),
        1 => (1_u64..60).prop_map(|end| Kind::Break { end }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64 * vmalloc_harness::env::effort() as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(vmalloc_harness::env::seed(1)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_events_are_replayed_and_leave_all_free(
        events in proptest::collection::vec((0_u32..12, kind()), 0..120),
        traced: bool,
    ) {
        let mut compiler = Compiler::new(if traced { Purges::Trace } else { Purges::Own });
        for &(cpu, kind) in &events {
            compiler.push(&event(cpu, kind)).expect("short");
        }
        let script = compiler.finish();
        prop_assert!(script.tally().adds_up());
        prop_assert_eq!(script.tally().events, events.len() as u64);
        played(&script);
    }
}
