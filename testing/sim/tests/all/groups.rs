//! Purges by groups of 8 nodes, on machines with many CPUs.

use crate::{PAGE, alloc, free};
use std::thread;
use vmalloc::{PageRange, Space, SpaceOptions};
use vmalloc_sim::harness::{check, check_whole};
use vmalloc_sim::{Options, Point, Sim};

/// Nodes of a group.
const GROUP: usize = 8;
/// Lazy pages that start a purge of a group.
const PART: usize = 64;
/// The most areas under one hold of a lock.
const HOLD: u64 = 32;

fn space(cpus: usize) -> Space<Sim> {
    Sim::run_on(0);
    let span = PageRange::from_len(0x1000, 1 << 17).expect("not empty");
    let lazy = (cpus / GROUP * PART) as u64;
    let options = SpaceOptions::default().unmap_on_free().guard(false).lazy_max_pages(lazy);
    Space::new(Options::new(span).cpus(cpus).build(), options).expect("an empty space")
}

/// Allocates so many areas of one page on a CPU, and stays there.
fn take(space: &Space<Sim>, cpu: usize, count: usize) -> Vec<usize> {
    Sim::run_on(cpu);
    (0..count).map(|_| alloc(space, 1)).collect()
}

/// Returns the lazy areas of the nodes of a group.
fn lazy_of(space: &Space<Sim>, group: usize) -> u64 {
    space.node_stats().skip(group * GROUP).take(GROUP).map(|node| node.lazy_areas).sum()
}

fn finish(space: &Space<Sim>) {
    check_whole(space);
    let longest = space.stats().longest_hold_areas;
    assert!(longest <= HOLD, "{longest} areas under one hold");
}

/// A group that passes its part of the threshold purges what it freed, and what waits in others
/// stays.
#[test]
fn a_group_purges_its_own_areas() {
    for cpus in [16, 128] {
        let space = space(cpus);
        for group in 0..cpus / GROUP {
            let waiting = take(&space, group * GROUP, PART / 2);
            waiting.iter().for_each(|&addr| free(&space, addr));
        }
        for group in 0..cpus / GROUP {
            let purges = space.stats().purges;
            let areas = take(&space, group * GROUP + 3, 2 * PART);
            areas.iter().for_each(|&addr| free(&space, addr));
            let purged = space.stats().purges - purges;
            assert!((1..=3).contains(&purged), "{purged} purges");
            assert!(lazy_of(&space, group) <= PART as u64);
            let others = (group + 1..cpus / GROUP).map(|other| lazy_of(&space, other)).sum::<u64>();
            assert_eq!(others, ((cpus / GROUP - group - 1) * PART / 2) as u64, "of later groups");
            check(&space);
        }
        finish(&space);
    }
}

/// A page that the platform refuses in each group keeps its own area back, and nothing else.
#[test]
fn groups_lose_nothing_that_is_refused() {
    for (cpus, call) in [16, 128].into_iter().flat_map(|cpus| [(cpus, Point::Unmap), (cpus, Point::Flush)]) {
        let space = space(cpus);
        let groups = cpus / GROUP;
        for group in 0..groups {
            let areas = take(&space, group * GROUP + 5, 2 * PART);
            let stuck = PageRange::from_len((areas[group] / PAGE) as u64, 1).expect("a page");
            space.platform().refuse(call, stuck);
            areas.iter().for_each(|&addr| free(&space, addr));
            check(&space);
        }
        space.purge().expect_err("pages are refused");
        let stats = space.stats();
        let stuck = groups as u64;
        assert_eq!((stats.lazy_areas, stats.refused_areas), (stuck, stuck), "{stats:?}");
        assert_eq!(stats.free_pages, stats.span_pages - stuck);
        space.platform().relent();
        finish(&space);
    }
}

/// Threads on all CPUs free, and purge their groups, while another holds everything as a fork does,
/// purges and drains.
#[test]
fn all_cpus_free_at_the_threshold() {
    for cpus in [16, 128] {
        let space = &space(cpus);
        let work = move |first: usize| {
            for cpu in (first..cpus).step_by(8).chain((first..cpus).step_by(8)) {
                let areas = take(space, cpu, PART);
                // Half of them elsewhere.
                areas[..PART / 2].iter().for_each(|&addr| free(space, addr));
                Sim::run_on((cpu + GROUP) % cpus);
                areas[PART / 2..].iter().for_each(|&addr| free(space, addr));
            }
        };
        thread::scope(|scope| {
            (0..8).for_each(|first| _ = scope.spawn(move || work(first)));
            for _ in 0..20 {
                space.quiesce();
                // SAFETY: this thread has just called `quiesce`.
                unsafe { space.resume() };
                space.flush().expect("no fault was asked for");
                let _ = space.drain().expect("no fault was asked for");
            }
        });
        check(space);
        space.quiesce();
        // SAFETY: this thread has just called `quiesce`, and is the only one.
        unsafe { space.resume_in_child() };
        check(space);
        finish(space);
    }
}
