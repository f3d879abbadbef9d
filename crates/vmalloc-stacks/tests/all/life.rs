//! The life of a pool: handles, stacks, threads.

use crate::common::*;
use std::sync::mpsc;
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
            let last = other.request().bytes(PAGE).growable(4 * PAGE).unwrap();
            let addr = all[0].bottom();
            drop(stacks);
            other.stack().unwrap();
            all.iter().for_each(|stack| use_pages(stack, 16, 1));
            drop(other);
            all.iter().for_each(|stack| use_pages(stack, 16, 2));
            assert_guarded(all[7].bottom(), all[7].top());
            drop(all);
            last.grow(4 * PAGE).unwrap();
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
fn a_stack_is_dropped_by_any_thread() {
    let stacks = open(16, 4);
    let (send, receive) = mpsc::sync_channel::<Stack>(300);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for stack in receive {
                use_pages(&stack, 16, 2);
            }
        });
        for round in 0..20_000 {
            let stack = stacks.stack().unwrap();
            use_pages(&stack, 1 + round % 16, 1);
            send.send(stack).unwrap();
        }
        drop(send);
    });
    // Every stack made is cached or in use: nothing is lost on the way.
    stacks.clear();
    assert_eq!(stacks.stats().busy_areas, 1, "the first page of the span alone");
}

#[test]
fn threads_that_make_and_drop_at_once_share_no_stack() {
    let stacks = open(16, 2);
    let stacks = &stacks;
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let mut own = Vec::new();
                for round in 0..20_000_usize {
                    let stack = match round % 7 {
                        0 => stacks.request().bytes(PAGE * (1 + round % 20)).stack(),
                        _ => stacks.stack(),
                    }
                    .unwrap();
                    let mark = thread + 1;
                    use_pages(&stack, 1 + round % (stack.len() / PAGE), mark);
                    own.push(stack);
                    if own.len() > 100 || round % 5 == 0 {
                        let stack = own.swap_remove(round % own.len());
                        // SAFETY: inside of the stack.
                        let found =
                            unsafe { std::ptr::with_exposed_provenance::<u8>(stack.top() - 64).read() };
                        assert_eq!(found, mark, "another thread wrote there");
                    }
                    if round % 4000 == 0 {
                        stacks.trim();
                    }
                }
            });
        }
    });
    stacks.clear();
    assert_eq!(stacks.stats().busy_areas, 1);
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
        let stack = stacks.request().bytes(PAGE).growable(64 * PAGE).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for pages in 2..=64 {
                        while let Err(error) = stack.grow(pages * PAGE) {
                            assert_eq!(error, vmalloc_stacks::StackError::Growing);
                        }
                    }
                });
            }
        });
        assert_eq!(stack.len(), 64 * PAGE);
    }
}
