use super::*;
use crate::design::{Ask, Design, Refusal, Setup};
use crate::designs::augmented::Augmented;
use crate::designs::pair::Pair;
use std::sync::atomic::AtomicBool;
use std::thread::{scope, sleep};
use std::time::Duration;
use vmalloc::PageRange;

/// Long enough for another thread to come to where it has to wait.
const WHILE: Duration = Duration::from_millis(30);

type Tree = Classic<Pair<Augmented>>;

fn tree(purge: Purge, pages: u64, lazy_max: u64) -> Tree {
    let span = PageRange::from_len(1, pages).unwrap();
    Tree::new("tree", &Setup::with_cpus(1).span(span).lazy_max(lazy_max), purge)
}

fn purging(tree: &Tree) -> &AtomicU64 {
    let Purge::Counted { purging, .. } = &tree.purge else { panic!("another purge") };
    purging
}

/// Frees areas of these sizes; the most that went back under one hold of the lock, and how many
/// purges there were.
fn longest_hold(purge: Purge, lazy_max: u64, sizes: &[u64]) -> (u64, u64) {
    let tree = tree(purge, 10_000, lazy_max);
    let starts: Vec<_> = sizes.iter().map(|&pages| tree.alloc(&Ask::new(pages)).unwrap()).collect();
    starts.iter().for_each(|&start| tree.free(start).unwrap());
    tree.purge();
    let counts = tree.counts();
    assert_eq!((counts.lazy_pages, counts.free_pages), (0, 10_000));
    (counts.longest_hold_areas, counts.purges)
}

#[test]
fn before_2016_all_areas_of_a_purge_go_back_under_one_hold() {
    assert_eq!(longest_hold(Purge::p0(), 1000, &[1; 500]), (500, 1));
}

#[test]
fn since_2016_the_lock_is_offered_after_each_area() {
    assert_eq!(longest_hold(Purge::p1(), 1000, &[1; 500]), (1, 1));
}

#[test]
fn since_2018_the_lock_is_offered_only_while_few_pages_are_lazy() {
    assert_eq!(longest_hold(Purge::p2(), 1000, &[1; 500]), (1, 1));
    // 5,000 lazy pages; with the area of 3,500, the sixth from the end, they fall below twice
    // 1,000.
    let sizes = [700, 100, 100, 3500, 100, 100, 100, 100, 200];
    let tree = tree(Purge::p2(), 10_000, 1000);
    let starts: Vec<_> = sizes.iter().map(|&pages| tree.alloc(&Ask::new(pages)).unwrap()).collect();
    // As if others had freed meanwhile: the list grows without a purge.
    let mut held = tree.held.lock();
    for start in starts {
        let (freed, pages) = held.areas.retire(start).unwrap();
        held.lazy.push(freed);
        tree.lazy.fetch_add(pages, Relaxed);
    }
    drop(held);
    tree.purge();
    assert_eq!((tree.counts().longest_hold_areas, tree.lazy_pages()), (6, 0));
}

#[test]
fn before_2016_only_a_caller_that_needs_a_result_waits_for_a_purge() {
    let tree = tree(Purge::p0(), 8, 1000);
    let start = tree.alloc(&Ask::new(8)).unwrap();
    tree.free(start).unwrap();
    let Purge::Held { purger: lock, .. } = &tree.purge else { panic!("another purge") };
    let held = lock.lock();
    tree.purge();
    assert_eq!(tree.lazy_pages(), 8);
    scope(|scope| {
        let asked = scope.spawn(|| tree.alloc(&Ask::new(8)));
        sleep(WHILE);
        assert!(!asked.is_finished());
        drop(held);
        assert_eq!(asked.join().unwrap(), Ok(start));
    });
}

#[test]
fn caller_that_needs_a_result_waits_for_all_purges() {
    for purge in [Purge::p1(), Purge::p2()] {
        let (tree, back) = (tree(purge, 8, 1000), AtomicBool::new(false));
        purging(&tree).fetch_add(1, Relaxed);
        scope(|scope| {
            scope.spawn(|| {
                tree.purge_and_wait();
                assert!(back.load(Acquire), "it has not waited");
            });
            sleep(WHILE);
            back.store(true, Release);
            purging(&tree).fetch_sub(1, Release);
        });
        // A thread that needs no addresses does not wait for others.
        purging(&tree).fetch_add(1, Relaxed);
        tree.purge();
    }
}

#[test]
fn alloc_during_another_purge_is_not_refused() {
    for purge in [Purge::p1(), Purge::p2()] {
        let tree = tree(purge, 8, 1000);
        let start = tree.alloc(&Ask::new(8)).unwrap();
        tree.free(start).unwrap();
        // The first purge takes the set, and is kept from giving it back.
        purging(&tree).fetch_add(1, Relaxed);
        let set = std::mem::take(&mut tree.held.lock().lazy);
        scope(|scope| {
            let asked = scope.spawn(|| tree.alloc(&Ask::new(8)));
            sleep(WHILE);
            assert!(!asked.is_finished(), "{:?}", asked.join());
            tree.give(set, Offer::Always);
            purging(&tree).fetch_sub(1, Release);
            assert_eq!(asked.join().unwrap(), Ok(start));
        });
        assert_eq!(tree.alloc(&Ask::new(1)), Err(Refusal::NoSpace));
    }
}
