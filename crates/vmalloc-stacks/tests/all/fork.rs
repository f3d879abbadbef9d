//! Forks: a child goes on with the stacks that it inherited, and with new ones.

use crate::common::*;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc_stacks::{LinuxOptions, Stacks};

/// Plays what a child may do with a pool and a stack of its parent's.
fn go_on(stacks: &Stacks, inherited: vmalloc_stacks::Stack, pages: usize, value: u8) {
    for page in 1..=pages {
        assert_eq!(peek(inherited.top() - page * PAGE), Some(value));
    }
    assert_guarded(inherited.bottom(), inherited.top());
    use_pages(&inherited, pages, value + 1);
    drop(inherited);
    let all: Vec<_> = (0..300).map(|_| stacks.stack().unwrap()).collect();
    for stack in &all {
        use_pages(stack, pages, 9);
        assert_guarded(stack.bottom(), stack.top());
    }
    drop(all);
    stacks.trim();
    stacks.clear();
    let stack = stacks.request().bytes(PAGE).growable(100 * PAGE).unwrap();
    stack.grow(100 * PAGE).unwrap();
}

#[test]
fn children_of_forks_while_other_threads_make_and_drop_stacks_go_on() {
    in_own_process(|| {
        let stacks = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 2)).unwrap();
        let stop = AtomicBool::new(false);
        let (stacks, stop) = (&stacks, &stop);
        let churn = move |thread: usize| {
            let mut own = Vec::new();
            for round in thread.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let stack = if round % 9 == 0 {
                    stacks.request().name("one").bytes(5 * PAGE).stack()
                } else {
                    stacks.stack()
                }
                .unwrap();
                use_pages(&stack, 1 + round % 5, 1);
                own.push(stack);
                if round % 200 == 0 {
                    own.clear();
                }
                if round % 1500 == 0 {
                    stacks.trim();
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || churn(thread));
            }
            for _ in 0..40 {
                let inherited = stacks.stack().unwrap();
                use_pages(&inherited, 16, 4);
                let inherited = std::mem::ManuallyDrop::new(inherited);
                in_child(|| {
                    // SAFETY: the copy in the child has one owner.
                    go_on(stacks, unsafe { std::ptr::read(&*inherited) }, 16, 4);
                });
                drop(std::mem::ManuallyDrop::into_inner(inherited));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_child_opens_and_drops_pools_and_decays_them() {
    in_own_process(|| {
        let stacks = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 2)).unwrap();
        // The parent's decay runs.
        drop(stacks.stack().unwrap());
        in_child(|| {
            let own = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 2)).unwrap();
            for stacks in [&stacks, &own] {
                let stack = stacks.stack().unwrap();
                use_pages(&stack, 16, 1);
                let below = stack.bottom()..stack.top() - 2 * PAGE;
                drop(stack);
                while resident(below.clone()) > 0 {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
        });
    });
}
