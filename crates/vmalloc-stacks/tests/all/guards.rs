//! Guards: on both sides of every stack, whatever happened before.

use crate::common::*;
use vmalloc_stacks::{Stacks, StacksOptions};

#[test]
fn the_first_stack_of_a_span_has_guards_on_both_sides() {
    let default = Stacks::open(&StacksOptions::new()).unwrap();
    for (stacks, pages) in [(open(4, 2), 4), (default, (1 << 20) / page_bytes())] {
        let stack = stacks.stack().unwrap();
        assert_eq!(
            (stack.len(), stack.guard()),
            (pages * page_bytes(), stack.bottom() - page_bytes()..stack.bottom())
        );
        // It is the lowest: nothing but the first page of the span is below.
        let others: Vec<_> = (0..100).map(|_| stacks.stack().unwrap()).collect();
        assert!(others.iter().all(|other| other.bottom() > stack.bottom()));
        use_pages(&stack, pages, 1);
        assert_guarded(stack.bottom(), stack.top());
    }
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
