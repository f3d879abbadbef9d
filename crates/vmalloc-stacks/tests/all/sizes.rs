//! Bad input: a typed error, and nothing is changed.

use crate::common::*;
use vmalloc_stacks::{StackError, Stacks, StacksOptions};

fn refusal(span: usize, settings: StacksOptions) -> StackError {
    match Stacks::open_with(addresses(span), &settings) {
        Err(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pools_of_impossible_stacks_are_refused() {
    let (page_bytes, span, settings) = (page_bytes(), 1 << 30, StacksOptions::new());
    for bytes in [0, 1, page_bytes - 1] {
        assert_eq!(refusal(span, settings.stack_bytes(bytes)), StackError::TooSmall { bytes, page_bytes });
    }
    for bytes in [span, 2 * span, usize::MAX] {
        let most = span - 2 * page_bytes;
        assert_eq!(refusal(span, settings.stack_bytes(bytes)), StackError::TooLarge { bytes, most });
    }
    for align in [0, 24, 3 * page_bytes, span, usize::MAX] {
        assert_eq!(refusal(span, settings.align(align)), StackError::BadAlign { align });
    }
    for span in [0, 1, page_bytes - 1] {
        assert!(matches!(refusal(span, settings), StackError::Open(_)));
    }
    let (bytes, most) = (1 << 20, 0);
    assert_eq!(refusal(2 * page_bytes, settings), StackError::TooLarge { bytes, most });
}

#[test]
fn stacks_of_impossible_sizes_are_refused_and_nothing_changes() {
    let stacks = open(16, 4);
    let before = stacks.stats().busy_areas;
    let page_bytes = page_bytes();
    for bytes in [0, 1, page_bytes - 1] {
        let error = StackError::TooSmall { bytes, page_bytes };
        assert_eq!(stacks.request().bytes(bytes).stack().unwrap_err(), error);
        assert_eq!(stacks.request().name("small").bytes(bytes).stack().unwrap_err(), error);
        assert_eq!(stacks.request().bytes(page_bytes).growable(bytes).unwrap_err(), error);
    }
    for bytes in [1, page_bytes - 1] {
        let error = StackError::TooSmall { bytes, page_bytes };
        assert_eq!(stacks.request().bytes(bytes).growable(page_bytes).unwrap_err(), error);
    }
    let most = (1 << 30) - 2 * page_bytes;
    for bytes in [most + 1, isize::MAX as usize, usize::MAX] {
        assert_eq!(stacks.request().bytes(bytes).stack().unwrap_err(), StackError::TooLarge { bytes, most });
        assert_eq!(
            stacks.request().bytes(page_bytes).growable(bytes).unwrap_err(),
            StackError::TooLarge { bytes, most }
        );
        assert_eq!(
            stacks.request().bytes(0).growable(bytes).unwrap_err(),
            StackError::TooLarge { bytes, most }
        );
    }
    let error = StackError::BeyondMost { bytes: 3 * page_bytes, most: 2 * page_bytes };
    assert_eq!(stacks.request().bytes(3 * page_bytes).growable(2 * page_bytes).unwrap_err(), error);
    assert_eq!(stacks.stats().busy_areas, before);
}

#[test]
fn sizes_are_rounded_up_to_pages() {
    let stacks = Stacks::open(&StacksOptions::new().stack_bytes(5 * page_bytes() + 1)).unwrap();
    assert_eq!((stacks.stack_bytes(), stacks.stack().unwrap().len()), (6 * page_bytes(), 6 * page_bytes()));
    assert_eq!(stacks.request().bytes(page_bytes()).stack().unwrap().len(), page_bytes());
    assert_eq!(stacks.request().bytes(page_bytes() + 1).stack().unwrap().len(), 2 * page_bytes());
    assert_eq!(
        stacks.request().bytes(1 + page_bytes()).growable(3 * page_bytes() - 1).unwrap().reserve().len(),
        page_bytes()
    );
}

#[test]
fn the_largest_stack_of_a_span_can_be_made() {
    let stacks = Stacks::open_with(addresses(64 << 20), &settings(1, 1)).unwrap();
    let stack = stacks.request().bytes((64 << 20) - 2 * page_bytes()).stack().unwrap();
    assert_guarded(stack.bottom(), stack.top());
    let Err(StackError::Alloc(_)) = stacks.stack() else { panic!("no address is left") };
    drop(stack);
    assert_eq!(stacks.stack().unwrap().len(), page_bytes());
}

#[test]
fn a_growable_stack_grows_and_shrinks_and_no_further() {
    let stacks = open(16, 4);
    let mut stack = stacks.request().bytes(0).growable(8 * page_bytes()).unwrap();
    let (top, most) = (stack.top(), 8 * page_bytes());
    assert_eq!((stack.len(), stack.bottom(), stack.reserve().len()), (0, top, most));
    (stack.guard().start..top + page_bytes()).step_by(page_bytes()).for_each(assert_traps);
    for pages in [1, 3] {
        stack.grow(pages * page_bytes()).unwrap();
        assert_eq!((stack.len(), stack.bottom()), (pages * page_bytes(), top - pages * page_bytes()));
        assert_eq!(peek(stack.bottom()), Some(0));
        assert_guarded(stack.bottom(), top);
        assert_guarded(stack.guard().end, top);
    }
    stack.grow(2 * page_bytes()).unwrap();
    assert_eq!(stack.len(), 3 * page_bytes(), "it never becomes smaller by growing");
    assert_eq!(stack.grow(most + 1), Err(StackError::BeyondMost { bytes: most + 1, most }));
    assert_eq!(stack.grow(0), Err(StackError::TooSmall { bytes: 0, page_bytes: page_bytes() }));
    // SAFETY: nothing is on the stack.
    unsafe {
        stack.shrink(page_bytes()).unwrap();
        stack.shrink(2 * page_bytes()).unwrap();
    }
    assert_eq!((stack.len(), stack.top()), (page_bytes(), top));
    assert_traps(stack.bottom() - 1);
    stack.grow(most).unwrap();
    assert_eq!((stack.len(), peek(top - most)), (most, Some(0)));
    assert!(stack.reserve().is_empty());
}

#[test]
fn cached_stacks_are_no_reason_to_run_out_of_addresses() {
    // Room for fewer stacks than a magazine has.
    let stacks = Stacks::open_with(addresses(32 * 256 * page_bytes()), &settings(255, 2)).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| stacks.stack().ok()).collect();
    assert!((20..=32).contains(&all.len()), "{}", all.len());
    drop(all);
    let large = stacks.request().bytes(30 * 256 * page_bytes()).stack().unwrap();
    drop(large);
    assert_eq!(std::iter::from_fn(|| stacks.stack().ok()).take(20).count(), 20);
}
