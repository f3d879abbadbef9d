//! The sequences keep what the lock keeps.

use super::*;
use std::time::Duration;

#[test]
fn interrupted_sequences_lose_no_entry_and_make_none() {
    let Some(area) = Area::find().filter(|area| area.is_registered()) else {
        return vmalloc_harness::not_run("rseq", "the C library has not registered this thread");
    };
    let mut rseq = Nodes::new(area, |stack| Unlocked(UnsafeCell::new(stack)));
    // More threads than CPUs: the system takes CPUs away in the middle.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..400_000).for_each(|_| entry(|| rseq.pop(), |entry| rseq.push(entry))));
        }
    });
    let entries: u64 = rseq.1.iter_mut().map(|node| node.0.0.get_mut().count).sum();
    assert_eq!(entries, NODES as u64 * HALF);
}

#[test]
fn stacks_end_where_they_end() {
    let Some(area) = Area::find().filter(|area| area.is_registered()) else { return };
    let rseq = Nodes::new(area, |stack| Unlocked(UnsafeCell::new(stack)));
    let pushed = (0..200_000).filter(|entry| rseq.push(*entry)).count();
    assert!(pushed > 0 && pushed < 200_000);
    let popped = (0..200_000).filter(|_| rseq.pop().is_some()).count();
    assert!(popped > 0 && popped < 200_000);
}

#[test]
fn every_way_is_measured() {
    let Some(area) = Area::find().filter(|area| area.is_registered()) else { return };
    let rows = run(area, &Limits { rounds: 1, window: Duration::from_micros(50) });
    assert_eq!(rows.len(), 9);
    assert!(rows.iter().all(|row| row.ns > 0.0), "{rows:?}");
}
