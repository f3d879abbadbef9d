//! Tests of records, and of a child of a fork.

use super::*;

#[cfg_attr(miri, ignore = "it forks")]
#[test]
fn a_refusal_in_a_child_of_a_fork_asks_for_no_lock_that_another_thread_had() {
    let space =
        crate::open(crate::LinuxOptions::new().max_bytes(1 << 24), vmalloc::SpaceOptions::default()).unwrap();
    let grace = Grace::new(&space);
    let held = &grace.shared.refused;
    std::thread::scope(|scope| scope.spawn(|| std::mem::forget(held.lock())).join().unwrap());
    vmalloc_harness::in_forked_child(|| {
        grace.shared.note_refusal(FreeError::AlreadyFreed { addr: 4096 });
        true
    });
    // SAFETY: a thread that has ended has locked it.
    unsafe { held.force_unlock() };
}

const EACH: usize = if cfg!(miri) { 8 } else { 10_000 };

/// Takes the records that have arrived, and counts them by their areas.
fn take_all(arrivals: &Arrivals, seen: &mut [u32]) {
    let mut next = arrivals.take().map_or(null_mut(), NonNull::as_ptr);
    while !next.is_null() {
        // SAFETY: it was pushed, and is taken out; `Box::into_raw` made it.
        let record = unsafe { Box::from_raw(next) };
        seen[record.area] += 1;
        next = record.next;
    }
}

#[test]
fn records_that_arrive_together_are_taken_once() {
    let (arrivals, mut seen) = (Arrivals::default(), vec![0; 2 * EACH]);
    std::thread::scope(|scope| {
        for first in [0, EACH] {
            let arrivals = &arrivals;
            scope.spawn(move || {
                for area in first..first + EACH {
                    let record = Box::new(Head { next: null_mut(), area });
                    arrivals.push(NonNull::from(Box::leak(record)));
                }
            });
        }
        (0..EACH).for_each(|_| take_all(&arrivals, &mut seen));
    });
    take_all(&arrivals, &mut seen);
    assert!(seen.iter().all(|&count| count == 1), "{seen:?}");
}
