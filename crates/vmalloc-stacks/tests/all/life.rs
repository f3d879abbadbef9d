//! The life of a pool: handles, stacks, threads.

use crate::common::*;
use vmalloc_stacks::{Growable, Stack, Stacks};

const fn is_shared<T: Send + Sync>() {}
const _: () = (is_shared::<Stacks>(), is_shared::<Stack>(), is_shared::<Growable>()).0;

/// Returns whether `addr` belongs to a mapping.
fn is_mapped(addr: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&addr)
    })
}

/// One test, for nothing else may map addresses meanwhile.
#[test]
fn a_pool_lives_as_long_as_a_handle_or_a_stack_and_no_longer() {
    in_own_process(|| {
        in_child(|| {
            let stacks = open(16, 4);
            let other = stacks.clone();
            let all: Vec<_> = (0..200).map(|_| stacks.stack().unwrap()).collect();
            let last = other.request().bytes(page_bytes()).growable(4 * page_bytes()).unwrap();
            let addr = all[0].bottom();
            drop(stacks);
            other.stack().unwrap();
            all.iter().for_each(|stack| use_pages(stack, 16, 1));
            drop(other);
            all.iter().for_each(|stack| use_pages(stack, 16, 2));
            assert_guarded(all[7].bottom(), all[7].top());
            drop(all);
            last.grow(4 * page_bytes()).unwrap();
            assert_eq!(peek(last.bottom()), Some(0));
            assert!(is_mapped(addr));
            drop(last);
            assert!(!is_mapped(addr), "the span is gone with its last stack");
        });
    });
}

#[test]
fn cached_stacks_keep_no_pool() {
    in_own_process(|| {
        in_child(|| {
            let stacks = open(16, 4);
            let all: Vec<_> = (0..100).map(|_| stacks.stack().unwrap()).collect();
            all.iter().for_each(|stack| use_pages(stack, 16, 1));
            let addr = all[0].bottom();
            drop(all);
            drop(stacks);
            assert!(!is_mapped(addr));
        });
    });
}

#[test]
fn pools_come_and_go_while_stacks_are_dropped() {
    for round in 0..200 {
        let stacks = open(4, 2);
        let all: Vec<_> = (0..70 + round % 3).map(|_| stacks.stack().unwrap()).collect();
        std::thread::scope(|scope| {
            // The last handle goes while the other thread puts stacks into magazines.
            scope.spawn(move || drop(all));
            scope.spawn(move || drop(stacks));
        });
    }
}

#[test]
fn two_threads_that_grow_a_stack_commit_each_page_once() {
    let stacks = open(4, 2);
    for _ in 0..200 {
        let stack = stacks.request().bytes(page_bytes()).growable(64 * page_bytes()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for pages in 2..=64 {
                        while let Err(error) = stack.grow(pages * page_bytes()) {
                            assert_eq!(error, vmalloc_stacks::StackError::Growing);
                        }
                    }
                });
            }
        });
        assert_eq!(stack.len(), 64 * page_bytes());
    }
}
