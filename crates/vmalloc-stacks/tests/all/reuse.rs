//! Reuse: the kept part stays warm, and the rest is given back in batches.

use crate::common::*;
use vmalloc_stacks::{LinuxOptions, Stack, Stacks};

#[test]
fn a_dropped_stack_is_reused_with_its_memory() {
    let stacks = open(16, 4);
    let stack = stacks.stack().unwrap();
    let bottom = stack.bottom();
    use_pages(&stack, 4, 5);
    drop(stack);
    let stack = stacks.stack().unwrap();
    assert_eq!(stack.bottom(), bottom);
    assert_eq!(resident(stack.top() - 4 * page_bytes()..stack.top()), 4);
    assert_eq!(peek(stack.top() - page_bytes()), Some(5));
}

/// Returns the pages of `ends` with memory below the kept four, and in them.
fn memory(ends: &[(usize, usize)]) -> (usize, usize) {
    let below = ends.iter().map(|&(bottom, top)| resident(bottom..top - 4 * page_bytes())).sum();
    (below, ends.iter().map(|&(_, top)| resident(top - 4 * page_bytes()..top)).sum())
}

fn ends(stacks: &[Stack]) -> Vec<(usize, usize)> {
    stacks.iter().map(|stack| (stack.bottom(), stack.top())).collect()
}

/// Keeps the thread on one CPU: a batch is that of a CPU.
fn stay_on_this_cpu() {
    // SAFETY: a set of bits, all zero, to which one is added.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap(), &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

#[test]
fn deep_stacks_are_trimmed_by_sixty_four() {
    stay_on_this_cpu();
    let stacks = open(16, 4);
    let mut all: Vec<_> = (0..65).map(|_| stacks.stack().unwrap()).collect();
    all.iter().for_each(|stack| use_pages(stack, 16, 1));
    let (last, ends) = (all.pop(), ends(&all));
    drop(all);
    assert_eq!(memory(&ends), (64 * 12, 64 * 4), "the batch is full, and waits");
    drop(last);
    let (below, kept) = memory(&ends);
    assert!(below <= 12, "{below} pages below the kept parts, of one stack at most");
    assert_eq!(kept, 64 * 4);
}

#[test]
fn deep_stacks_in_steady_use_are_never_trimmed() {
    stay_on_this_cpu();
    let stacks = open(16, 4);
    for round in 0..1000 {
        let stack = stacks.stack().unwrap();
        let (below, kept) = memory(&ends(std::slice::from_ref(&stack)));
        assert!(round == 0 || (below, kept) == (12, 4));
        use_pages(&stack, 16, 1);
    }
}

#[test]
fn a_trimmed_stack_reads_as_zero_below_the_kept_part() {
    let stacks = open(16, 4);
    let stack = stacks.stack().unwrap();
    let (bottom, top) = (stack.bottom(), stack.top());
    use_pages(&stack, 16, 1);
    drop(stack);
    stacks.trim();
    assert_eq!(memory(&[(bottom, top)]), (0, 4));
    let stack = stacks.stack().unwrap();
    assert_eq!(stack.bottom(), bottom);
    for page in 5..=16 {
        assert_eq!(peek(top - page * page_bytes()), Some(0));
    }
    assert_eq!(peek(top - page_bytes()), Some(1));
}

/// One stack can't be trimmed, for a page of it is not mapped any more: all others are.
#[test]
fn a_stack_that_can_t_be_trimmed_keeps_no_other_from_it() {
    in_own_process(|| {
        // In a child, which has one thread: no other one maps something in the hole.
        in_child(|| {
            let stacks = open(16, 4);
            let all: Vec<_> = (0..20).map(|_| stacks.stack().unwrap()).collect();
            all.iter().for_each(|stack| use_pages(stack, 16, 1));
            let mut ends = ends(&all);
            ends.sort_unstable();
            let (bottom, _) = ends.remove(7);
            // SAFETY: the stack is this test's, and is not used any more.
            let unmapped = unsafe {
                libc::munmap(std::ptr::with_exposed_provenance_mut(bottom + page_bytes()), page_bytes())
            };
            assert_eq!(unmapped, 0);
            drop(all);
            stacks.trim();
            assert_eq!(memory(&ends), (0, 19 * 4));
            // No stack is made any more, and the pool goes with the child.
            std::mem::forget(stacks);
        });
    });
}

#[test]
fn trimming_finds_what_the_sentinel_misses() {
    let stacks = open(16, 4);
    let stack = stacks.stack().unwrap();
    let ends = ends(std::slice::from_ref(&stack));
    // A frame that steps over the sentinel: pages 1 and 16 from the top.
    for addr in [stack.top() - 64, stack.bottom()] {
        // SAFETY: inside of the stack.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write(1) };
    }
    drop(stack);
    assert!(memory(&ends).0 >= 1);
    stacks.trim();
    assert_eq!(memory(&ends).0, 0);
}

#[test]
fn chosen_and_named_stacks_are_trimmed_too_and_where_nothing_is_to_be_kept_nothing_is() {
    for (keep, kept) in [(4, 8), (0, 0)] {
        let stacks = open(16, keep);
        let all = [
            stacks.request().bytes(32 * page_bytes()).stack().unwrap(),
            stacks.request().name("one").bytes(16 * page_bytes()).stack().unwrap(),
            stacks.stack().unwrap(),
        ];
        all.iter().for_each(|stack| use_pages(stack, 16, 1));
        let ends = ends(&all);
        drop(all);
        stacks.trim();
        assert_eq!(memory(&ends), (0, kept + keep));
    }
}

#[test]
fn the_space_caches_as_many_stacks_as_their_kept_parts_allow() {
    let options = settings(8, 4).warm_bytes(1000 * 4 * page_bytes());
    let stacks = Stacks::open_with(LinuxOptions::new().drain_thread(false), &options).unwrap();
    let all: Vec<_> = (0..1200).map(|_| stacks.stack().unwrap()).collect();
    drop(all);
    let cached = stacks.stats().cached_areas;
    // Nodes take credit in batches, some of which may stay unused.
    assert!((900..=1000).contains(&cached), "{cached} of 1000 stacks are cached");
}

#[test]
fn the_background_trims_by_itself() {
    let stacks = Stacks::open_with(LinuxOptions::new().max_bytes(1 << 30), &settings(16, 4)).unwrap();
    let stack = stacks.stack().unwrap();
    let (bottom, top) = (stack.bottom(), stack.top());
    use_pages(&stack, 16, 1);
    drop(stack);
    // However long that takes: a second, and more on a machine with other work.
    while resident(bottom..top - 4 * page_bytes()) > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Then the space has it, and frees it by its age. It is the pool's again if it is reused.
    assert_eq!(stacks.stack().unwrap().len(), 16 * page_bytes());
}
