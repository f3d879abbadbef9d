use super::*;
use crate::designs::pair::FreeSpace;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{scope, sleep};
use std::time::Duration;

fn nodes(pages: u64, cpus: usize) -> Nodes {
    let span = PageRange::from_len(64, pages).unwrap();
    Nodes::new(&Setup::with_cpus(cpus).span(span).lazy_max(1 << 30))
}

fn alloc_on(nodes: &Nodes, cpu: usize, ask: Ask) -> u64 {
    cpu::play(Some(cpu));
    let start = nodes.alloc(&ask).unwrap();
    cpu::play(None);
    start
}

/// How many areas the pool of a size has at a node.
fn pooled(nodes: &Nodes, node: usize, pages: u64) -> usize {
    nodes.shared.nodes[node].pools.lock().ranges().filter(|(_, range)| range.len() == pages).count()
}

#[test]
fn purged_area_goes_to_the_pool_of_its_asker_alone() {
    let nodes = nodes(1000, 3);
    let start = alloc_on(&nodes, 1, Ask::new(5));
    assert_eq!((start, nodes.shared.home(start)), (64, 64 / 16 % 3));
    nodes.free(start).unwrap();
    assert_eq!((nodes.lazy_pages(), nodes.free(start)), (5, Err(Refusal::NotAnArea)));
    nodes.purge();
    assert_eq!([0, 1, 2].map(|node| pooled(&nodes, node, 5)), [0, 1, 0]);
    assert_ne!(alloc_on(&nodes, 2, Ask::new(5)), start);
    assert_ne!(alloc_on(&nodes, 1, Ask::new(4)), start);
    assert_eq!(alloc_on(&nodes, 1, Ask::new(5)), start);
    nodes.verify().unwrap();
}

#[test]
fn neighbouring_zones_belong_to_different_nodes() {
    let nodes = nodes(1000, 4);
    assert_eq!([64, 79, 80, 96, 112, 128].map(|page| nodes.shared.home(page)), [0, 0, 1, 2, 3, 0]);
}

#[test]
fn only_the_head_of_a_pool_is_looked_at_and_a_misaligned_one_moves_to_the_tail() {
    let nodes = nodes(1000, 1);
    let [odd, even] = [1, 2].map(|_| alloc_on(&nodes, 0, Ask::new(3)));
    assert_eq!((odd, even), (64, 67));
    // The head is 67, which is not aligned; 64 would be.
    [odd, even].into_iter().for_each(|start| nodes.free(start).unwrap());
    nodes.purge();
    let above = alloc_on(&nodes, 0, Ask::new(3).align(4));
    assert_eq!(above, 72);
    assert_eq!(alloc_on(&nodes, 0, Ask::new(3).align(4)), 64);
    // Outside the limits, and so left where it is.
    let within = PageRange::new(200, 300).unwrap();
    assert_eq!(alloc_on(&nodes, 0, Ask::new(3).within(within)), 200);
    assert_eq!(alloc_on(&nodes, 0, Ask::new(3)), 67);
}

#[test]
fn pools_lose_a_quarter_at_a_drain_and_those_of_fewer_than_four_everything() {
    let nodes = nodes(80, 1);
    let starts: Vec<_> = (0..8).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    starts.iter().for_each(|&start| nodes.free(start).unwrap());
    // Filled, then 8 − 2, 6 − 1, 5 − 1, 4 − 1, and the last three at once. But for the first,
    // nothing is lazy at these drains.
    let counts = [8, 6, 5, 4, 3, 0].map(|left| {
        nodes.purge();
        nodes.verify().unwrap();
        (left, pooled(&nodes, 0, 10))
    });
    assert!(counts.iter().all(|(left, is)| left == is), "{counts:?}");
    assert_eq!(nodes.counts().purges, 1, "a drain of nothing is no purge");
}

#[test]
fn pools_lose_everything_where_addresses_are_short() {
    let nodes = nodes(80, 1);
    let starts: Vec<_> = (0..8).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    starts.iter().for_each(|&start| nodes.free(start).unwrap());
    nodes.purge();
    assert_eq!(pooled(&nodes, 0, 10), 8);
    assert_eq!(alloc_on(&nodes, 0, Ask::new(80)), 64);
    nodes.verify().unwrap();
}

#[test]
fn pools_lose_everything_where_memory_is_short_and_lazy_areas_stay() {
    let nodes = nodes(1000, 2);
    let starts: Vec<_> = (0..9).map(|at| alloc_on(&nodes, at % 2, Ask::new(10))).collect();
    starts[..8].iter().for_each(|&start| nodes.free(start).unwrap());
    nodes.purge();
    nodes.free(starts[8]).unwrap();
    assert_eq!([0, 1].map(|node| pooled(&nodes, node, 10)), [4, 4]);
    nodes.relieve();
    assert_eq!([0, 1].map(|node| pooled(&nodes, node, 10)), [0, 0]);
    assert_eq!((nodes.lazy_pages(), nodes.counts().free_pages), (10, 990));
    nodes.verify().unwrap();
}

#[test]
fn pools_are_refilled_in_rising_order_and_the_last_that_came_goes_first() {
    let nodes = nodes(1000, 1);
    let starts: Vec<_> = (0..8).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    // In this order they become lazy; the pool has them by address.
    for at in [3, 0, 7, 1, 6, 2, 5, 4] {
        nodes.free(starts[at]).unwrap();
    }
    nodes.purge();
    // The decay takes from the end where the next allocation would.
    nodes.purge();
    let left: Vec<_> = nodes.shared.nodes[0].pools.lock().ranges().map(|(_, area)| area.start()).collect();
    assert_eq!(left, starts[..6]);
    let again: Vec<_> = (0..6).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    assert!(again.iter().eq(starts[..6].iter().rev()), "{again:?} of {starts:?}");
}

/// A main window of 1000 pages, and another of 500 below it.
fn two_windows(lazy_max: u64) -> [Nodes; 2] {
    let spans = [(5000, 5500), (8000, 9000)].map(|(start, end)| PageRange::new(start, end).unwrap());
    let setup = Setup::with_cpus(1).lazy_max(lazy_max);
    Nodes::of_windows(&setup, &spans).try_into().map_err(|_| "two").unwrap()
}

#[test]
fn only_the_main_window_is_pooled() {
    let [other, main] = two_windows(1 << 30);
    for window in [&other, &main] {
        let start = alloc_on(window, 0, Ask::new(10));
        window.free(start).unwrap();
    }
    // It is the main one's to drain for both.
    other.purge();
    assert_eq!(main.lazy_pages(), 20);
    main.purge();
    let counts = [&other, &main].map(|window| (window.counts().pooled_pages, window.counts().free_pages));
    assert_eq!(counts, [(0, 500), (10, 990)]);
    // Nor is another window served from the pools.
    assert_eq!(alloc_on(&other, 0, Ask::new(10)), 5000);
    assert_eq!([&other, &main].map(|window| window.verify()), [Ok(()), Ok(())]);
}

#[test]
fn windows_share_one_count_of_lazy_pages_and_no_areas() {
    let [other, main] = two_windows(15);
    let [theirs, ours] = [&other, &main].map(|window| alloc_on(window, 0, Ask::new(10)));
    assert_eq!((main.free(theirs), other.free(ours)), (Err(Refusal::NotAnArea), Err(Refusal::NotAnArea)));
    main.free(ours).unwrap();
    assert_eq!((main.counts().lazy_pages, other.counts().lazy_pages), (10, 0));
    // Twenty are more than fifteen, though no window has as many.
    other.free(theirs).unwrap();
    assert_eq!((main.lazy_pages(), main.counts().purges, other.counts().purges), (0, 1, 0));
}

#[test]
fn a_window_without_room_waits_for_what_others_have_lazy_and_refuses_then() {
    let [other, main] = two_windows(1 << 30);
    let [theirs, ours] = [(&other, 400), (&main, 400)].map(|(it, pages)| alloc_on(it, 0, Ask::new(pages)));
    [(&other, theirs), (&main, ours)].into_iter().for_each(|(it, start)| it.free(start).unwrap());
    assert_eq!(other.alloc(&Ask::new(500)), Ok(5000));
    assert_eq!(other.alloc(&Ask::new(1)), Err(Refusal::NoSpace));
    [&other, &main].into_iter().for_each(|window| window.settle());
    assert_eq!((main.counts().free_pages, other.counts().busy_pages), (1000, 500));
    main.verify().unwrap();
}

#[test]
fn frees_during_a_drain_ask_for_a_second_one() {
    let span = PageRange::from_len(64, 1000).unwrap();
    let nodes = Nodes::new(&Setup::with_cpus(1).span(span).lazy_max(15));
    let starts: Vec<_> = (0..4).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    nodes.free(starts[0]).unwrap();
    scope(|scope| {
        // The first drain stops where it takes the lazy set.
        let pools = nodes.shared.nodes[0].pools.lock();
        let first = scope.spawn(|| nodes.free(starts[1]));
        while nodes.shared.asked.load(SeqCst) != 0 || !nodes.shared.purging.is_locked() {
            std::thread::yield_now();
        }
        // The count has not fallen: this free asks for another, and does not wait.
        nodes.free(starts[2]).unwrap();
        assert_eq!(nodes.shared.asked.load(SeqCst), 1);
        drop(pools);
        first.join().unwrap().unwrap();
    });
    // The second drain came, and decayed the pool that the first had filled.
    assert_eq!(nodes.shared.asked.load(SeqCst), 0);
    assert_eq!((nodes.lazy_pages(), pooled(&nodes, 0, 10)), (0, 0));
    nodes.verify().unwrap();
}

#[test]
fn areas_too_large_for_a_pool_go_to_the_heap() {
    let nodes = nodes(1000, 1);
    let [pool, heap] = [256, 257].map(|pages| alloc_on(&nodes, 0, Ask::new(pages)));
    [pool, heap].into_iter().for_each(|start| nodes.free(start).unwrap());
    nodes.purge();
    let counts = nodes.counts();
    assert_eq!((counts.pooled_pages, counts.free_pages, counts.purges), (256, 744, 1));
}

#[test]
fn caller_waits_for_a_purge_that_emptied_the_sets() {
    let nodes = nodes(8, 2);
    let start = alloc_on(&nodes, 0, Ask::new(8));
    nodes.free(start).unwrap();
    let purging = nodes.shared.purging.lock();
    let area = nodes.shared.nodes[nodes.shared.home(start)].lazy.lock().pop().unwrap();
    scope(|scope| {
        let asked = scope.spawn(|| nodes.alloc(&Ask::new(8)));
        sleep(Duration::from_millis(30));
        assert!(!asked.is_finished());
        nodes.window().heap.lock().give(area.range);
        nodes.shared.lazy.fetch_sub(8, SeqCst);
        drop(purging);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
}

#[test]
fn area_between_busy_tree_and_lazy_set_is_waited_for() {
    let nodes = nodes(8, 1);
    let start = alloc_on(&nodes, 0, Ask::new(8));
    // A free is interrupted before it reaches the lazy set.
    let lazy = nodes.shared.nodes[0].lazy.lock();
    scope(|scope| {
        scope.spawn(|| nodes.free(start).unwrap());
        while nodes.shared.nodes[0].busy.lock().at(start).is_some() {
            std::thread::yield_now();
        }
        let asked = scope.spawn(|| nodes.alloc(&Ask::new(8)));
        sleep(Duration::from_millis(30));
        assert!(!asked.is_finished());
        drop(lazy);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
    nodes.verify().unwrap();
}

#[test]
fn area_freed_after_the_last_look_is_waited_for() {
    let (nodes, pause) = (nodes(8, 1), || sleep(Duration::from_millis(30)));
    let start = alloc_on(&nodes, 0, Ask::new(8));
    let purging = nodes.shared.purging.lock();
    scope(|scope| {
        let asked = scope.spawn(|| nodes.alloc(&Ask::new(8)));
        pause();
        // It has found no room, and waits to purge. Now it purges, finds nothing, and waits to look
        // once more.
        let heap = nodes.window().heap.lock();
        drop(purging);
        pause();
        nodes.free(start).unwrap();
        drop(heap);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
}
