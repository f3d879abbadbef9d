use super::*;
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
    nodes.nodes[node].pools.lock().ranges().filter(|(_, range)| range.len() == pages).count()
}

#[test]
fn purged_area_goes_to_the_pool_of_its_asker_alone() {
    let nodes = nodes(1000, 3);
    let start = alloc_on(&nodes, 1, Ask::new(5));
    assert_eq!((start, nodes.home(start)), (64, 64 / 16 % 3));
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
    assert_eq!([64, 79, 80, 96, 112, 128].map(|page| nodes.home(page)), [0, 0, 1, 2, 3, 0]);
}

#[test]
fn only_the_head_of_a_pool_is_looked_at_and_a_misaligned_one_moves_to_the_tail() {
    let nodes = nodes(1000, 1);
    let [odd, even] = [1, 2].map(|_| alloc_on(&nodes, 0, Ask::new(3)));
    assert_eq!((odd, even), (64, 67));
    // The head is 67, which is not aligned; 64 would be.
    [even, odd].into_iter().for_each(|start| nodes.free(start).unwrap());
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
fn pools_lose_a_quarter_at_a_drain_and_everything_under_pressure() {
    let nodes = nodes(80, 1);
    let starts: Vec<_> = (0..8).map(|_| alloc_on(&nodes, 0, Ask::new(10))).collect();
    starts.iter().for_each(|&start| nodes.free(start).unwrap());
    // Filled, then 8 − 2, 6 − 1, 5 − 1, 4 − 1, and three stay.
    let counts = [8, 6, 5, 4, 3, 3].map(|left| {
        nodes.purge();
        nodes.verify().unwrap();
        (left, pooled(&nodes, 0, 10))
    });
    assert!(counts.iter().all(|(left, is)| left == is), "{counts:?}");
    assert_eq!(alloc_on(&nodes, 0, Ask::new(80)), 64);
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
    let purging = nodes.purging.lock();
    let area = nodes.nodes[nodes.home(start)].lazy.lock().pop().unwrap();
    scope(|scope| {
        let asked = scope.spawn(|| nodes.alloc(&Ask::new(8)));
        sleep(Duration::from_millis(30));
        assert!(!asked.is_finished());
        nodes.heap.lock().give(area.range);
        nodes.lazy.fetch_sub(8, SeqCst);
        drop(purging);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
}

#[test]
fn area_between_busy_tree_and_lazy_set_is_waited_for() {
    let nodes = nodes(8, 1);
    let start = alloc_on(&nodes, 0, Ask::new(8));
    // A free is interrupted before it reaches the lazy set.
    let lazy = nodes.nodes[0].lazy.lock();
    scope(|scope| {
        scope.spawn(|| nodes.free(start).unwrap());
        while nodes.nodes[0].busy.lock().at(start).is_some() {
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
    let purging = nodes.purging.lock();
    scope(|scope| {
        let asked = scope.spawn(|| nodes.alloc(&Ask::new(8)));
        pause();
        // It has found no room, and waits to purge. Now it purges, finds nothing, and waits to look
        // once more.
        let heap = nodes.heap.lock();
        drop(purging);
        pause();
        nodes.free(start).unwrap();
        drop(heap);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
}
