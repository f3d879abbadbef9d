//! Coroutines of `corosensei` on our stacks.

use crate::common::*;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Recurses `depth` times, with a kilobyte in each frame.
#[inline(never)]
fn recurse(depth: usize) -> usize {
    let mut frame = [depth as u8; 1024];
    std::hint::black_box(&mut frame);
    if depth == 0 { 0 } else { recurse(depth - 1) + usize::from(frame[512] == depth as u8) }
}

#[test]
fn coroutines_run_suspend_and_end_on_our_stacks() {
    let stacks = open(64, 4);
    let mut all: Vec<_> = (0..200_usize)
        .map(|index| {
            Coroutine::with_stack(stacks.stack().unwrap(), move |yielder, first: usize| {
                let more = yielder.suspend(first + index);
                more + recurse(index)
            })
        })
        .collect();
    for (index, coroutine) in all.iter_mut().enumerate() {
        assert_eq!(coroutine.resume(10).as_yield(), Some(10 + index));
    }
    for (index, mut coroutine) in all.into_iter().enumerate() {
        let CoroutineResult::Return(sum) = coroutine.resume(5) else { panic!("it has returned") };
        assert_eq!(sum, 5 + index);
        let stack = coroutine.into_stack();
        assert_guarded(stack.bottom(), stack.top());
    }
    stacks.trim();
}

#[test]
fn a_coroutine_ends_on_another_thread() {
    let stacks = open(16, 4);
    for _ in 0..200 {
        let mut coroutine =
            Coroutine::with_stack(stacks.stack().unwrap(), |_: &Yielder<_, ()>, depth: usize| recurse(depth));
        coroutine.resume(20).as_return().unwrap();
        let stack = coroutine.into_stack();
        std::thread::spawn(move || drop(stack)).join().unwrap();
    }
}

#[test]
fn a_coroutine_grows_the_stack_that_it_runs_on() {
    let stacks = open(16, 4);
    let stack = stacks.request().bytes(8 * page_bytes()).growable(1 << 20).unwrap();
    let grower = stack.grower();
    let mut coroutine = Coroutine::with_stack(stack, move |_: &Yielder<_, ()>, depth: usize| {
        assert_eq!(recurse(10), 10);
        grower.grow(1 << 20).unwrap();
        recurse(depth)
    });
    assert_eq!(coroutine.resume(200).as_return(), Some(200));
    drop(coroutine.into_stack());
    assert_eq!(stacks.stats().busy_areas, 1, "the first page of the span alone");
}

#[test]
#[should_panic(expected = "a stack with memory")]
fn a_coroutine_on_a_stack_without_memory_is_refused() {
    let stacks = open(64, 4);
    let stack = stacks.request().bytes(0).growable(1 << 20).unwrap();
    drop(Coroutine::<(), (), (), _>::with_stack(stack, |_, ()| ()));
}
