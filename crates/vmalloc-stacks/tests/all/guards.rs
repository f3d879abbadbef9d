//! Guards: on both sides of every stack, whatever happened before.

use crate::common::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use vmalloc_stacks::{Growable, Stack, Stacks, StacksOptions};

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
fn neighbours_have_a_guard_between_them() {
    let stacks = open(4, 2);
    let mut all: Vec<_> = (0..300).map(|_| stacks.stack().unwrap()).collect();
    all.sort_by_key(Stack::bottom);
    for pair in all.windows(2) {
        assert!(pair[1].bottom() >= pair[0].top() + PAGE);
    }
    for stack in &all {
        use_pages(stack, 4, 7);
        assert_guarded(stack.bottom(), stack.top());
    }
}

#[test]
fn a_reused_stack_is_guarded() {
    let stacks = open(16, 2);
    for pages in [1, 16] {
        for _ in 0..200 {
            let stack = stacks.stack().unwrap();
            use_pages(&stack, pages, 9);
            assert_guarded(stack.bottom(), stack.top());
        }
    }
    stacks.trim();
    stacks.clear();
    let stack = stacks.stack().unwrap();
    use_pages(&stack, 16, 9);
    assert_guarded(stack.bottom(), stack.top());
}

#[test]
fn dropped_stacks_trap_once_they_are_cleared() {
    let stacks = open(8, 2);
    let stack = stacks.stack().unwrap();
    use_pages(&stack, 8, 3);
    let (bottom, top) = (stack.bottom(), stack.top());
    drop(stack);
    stacks.clear();
    (bottom..top).step_by(PAGE).for_each(assert_traps);
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

/// A stack of any kind.
enum Any {
    Fixed(Stack),
    Growing(Growable),
}

impl Any {
    fn ends(&self) -> (usize, usize) {
        match self {
            Self::Fixed(stack) => (stack.bottom(), stack.top()),
            Self::Growing(stack) => (stack.bottom(), stack.top()),
        }
    }
}

fn make(stacks: &Stacks, random: &mut impl Rng) -> Any {
    let pages = 1 + random.next_u32() as usize % 40;
    let made = match random.next_u32() % 4 {
        0 => stacks.stack(),
        1 => stacks.request().bytes(pages * PAGE + 5).stack(),
        2 => stacks.request().name("random").bytes(pages * PAGE).stack(),
        _ => return Any::Growing(stacks.request().bytes(PAGE).growable(pages * PAGE).unwrap()),
    };
    Any::Fixed(made.unwrap())
}

#[test]
fn every_stack_of_a_random_program_is_guarded_and_holds_what_its_owner_wrote() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    let stacks = Stacks::open(&settings(8, 2).warm_bytes(256 * PAGE)).unwrap();
    let mut live: Vec<(Any, u8)> = Vec::new();
    for step in 0..3000_u32 {
        match random.next_u32() % 16 {
            0..=7 => {
                let stack = make(&stacks, &mut random);
                let ((bottom, top), mark) = (stack.ends(), step as u8);
                for addr in (bottom..top).step_by(PAGE) {
                    // SAFETY: inside of the stack.
                    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr + 8).write(mark) };
                }
                assert_guarded(bottom, top);
                live.push((stack, mark));
            }
            8..=13 if !live.is_empty() => {
                let (stack, mark) = live.swap_remove(random.next_u32() as usize % live.len());
                let (bottom, top) = stack.ends();
                assert_guarded(bottom, top);
                (bottom..top).step_by(PAGE).for_each(|addr| assert_eq!(peek(addr + 8), Some(mark)));
            }
            14 => stacks.trim(),
            _ if step % 100 == 0 => stacks.clear(),
            _ => {}
        }
    }
    let mut ends: Vec<_> = live.iter().map(|(stack, _)| stack.ends()).collect();
    ends.sort_unstable();
    assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0));
}

#[test]
fn the_default_pool_is_guarded() {
    let stacks = Stacks::open(&StacksOptions::new()).unwrap();
    let stack = stacks.stack().unwrap();
    assert_eq!(stack.len(), 1 << 20);
    use_pages(&stack, 256, 1);
    assert_guarded(stack.bottom(), stack.top());
}
