//! Guards: on both sides of every stack, whatever happened before.

use crate::common::*;
use vmalloc_stacks::{Stacks, StacksOptions};

#[test]
fn the_first_stack_of_a_span_has_guards_on_both_sides() {
    let stacks = open(4, 2);
    let stack = stacks.stack().unwrap();
    assert_guarded(stack.bottom(), stack.top());
    assert_eq!(stack.guard(), stack.bottom() - PAGE..stack.bottom());
    // It is the lowest: nothing but the first page of the span is below.
    let others: Vec<_> = (0..100).map(|_| stacks.stack().unwrap()).collect();
    assert!(others.iter().all(|other| other.bottom() > stack.bottom()));
    use_pages(&stack, 4, 1);
}

#[test]
fn aligned_stacks_are_aligned_and_guarded() {
    let align = 1 << 20;
    let stacks = Stacks::open(&settings(16, 2).align(align)).unwrap();
    for _ in 0..2 {
        let all: Vec<_> = (0..100).map(|_| stacks.stack().unwrap()).collect();
        for stack in &all {
            assert!(stack.bottom().is_multiple_of(align));
            use_pages(stack, 16, 1);
            assert_guarded(stack.bottom(), stack.top());
        }
    }
}

#[test]
fn a_growable_stack_traps_below_what_is_committed() {
    let stacks = open(4, 2);
    let stack = stacks.request().bytes(2 * PAGE).growable(64 * PAGE).unwrap();
    for pages in [2, 3, 40, 64] {
        stack.grow(pages * PAGE).unwrap();
        assert_eq!((stack.len(), stack.bottom()), (pages * PAGE, stack.top() - pages * PAGE));
        assert_guarded(stack.bottom(), stack.top());
        assert_guarded(stack.guard().end, stack.top());
        assert_eq!(peek(stack.bottom()), Some(0));
    }
}

#[test]
fn a_reserved_stack_traps_until_it_grows() {
    let stacks = open(4, 2);
    let stack = stacks.request().bytes(0).growable(8 * PAGE).unwrap();
    assert_eq!((stack.len(), stack.bottom(), stack.reserve().len()), (0, stack.top(), 8 * PAGE));
    (stack.guard().start..stack.top() + PAGE).step_by(PAGE).for_each(assert_traps);
    stack.grow(3 * PAGE).unwrap();
    assert_guarded(stack.bottom(), stack.top());
    assert_eq!(peek(stack.bottom()), Some(0));
}

#[test]
fn the_default_pool_is_guarded() {
    let stacks = Stacks::open(&StacksOptions::new()).unwrap();
    let stack = stacks.stack().unwrap();
    assert_eq!(stack.len(), 1 << 20);
    use_pages(&stack, 256, 1);
    assert_guarded(stack.bottom(), stack.top());
}
