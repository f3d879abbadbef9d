//! Steps of the probe that differ, for areas of `vmalloc`; and tests of such areas.

use super::{
    VMALLOC_VADDR_RANGE,
    kvirt_area::KVirtArea,
    probe::{area_of, becomes_free, frame_of, peek, peek_elsewhere, wait},
    space::space,
};
use crate::{
    cpu::num_cpus,
    irq,
    mm::{PAGE_SIZE, Split},
    prelude::*,
};

/// Pairs that are measured: enough for purges by the threshold.
pub(super) const PAIRS: usize = 20_000;

pub(super) const BUFFERS: usize = 2_000;

/// Gives back what was put off.
pub(super) fn settle() {
    space().purge().unwrap();
}

/// Returns the size of the free range above all areas, but for two guards.
pub(super) fn rest<'a>(areas: impl Iterator<Item = &'a KVirtArea>) -> usize {
    VMALLOC_VADDR_RANGE.end - areas.map(KVirtArea::end).max().unwrap() - 2 * PAGE_SIZE
}

/// Returns what this CPU and another one see.
fn look(va: Vaddr) -> [Option<u64>; 2] {
    let elsewhere = if num_cpus() > 1 { peek_elsewhere(va) } else { peek(va) };
    [peek(va), elsewhere]
}

#[ktest]
fn freed_area_faults_on_every_cpu_after_a_flush() {
    let area = area_of([frame_of(1)], PAGE_SIZE);
    let va = area.start();
    assert_eq!(look(va), [Some(1); 2]);
    drop(area);
    space().flush().unwrap();
    assert_eq!(look(va), [None; 2]);
}

#[ktest]
fn page_behind_an_area_faults() {
    let areas = [1, 2].map(|word| area_of([frame_of(word)], PAGE_SIZE));
    for area in &areas {
        assert_eq!(look(area.end()), [None; 2]);
    }
}

#[ktest]
fn frames_of_a_freed_area_go_back_after_the_flush() {
    let frame = frame_of(1);
    let area = area_of([frame.clone()], PAGE_SIZE);
    drop(area);
    wait();
    assert_eq!(frame.reference_count(), 2, "a CPU may still reach it");
    space().flush().unwrap();
    assert!(becomes_free(&frame));
}

#[ktest]
fn area_dropped_with_irqs_off_is_freed_later() {
    let area = area_of([frame_of(1)], PAGE_SIZE);
    let va = area.start();
    let irq_guard = irq::disable_local();
    drop(area);
    drop(irq_guard);
    assert!(space().find(va).is_some());
    // Any other area that is made or dropped where it may wait takes it along.
    drop(area_of([], PAGE_SIZE));
    assert!(space().find(va).is_none());
    space().flush().unwrap();
    assert_eq!(look(va), [None; 2]);
}

#[ktest]
fn parts_of_a_split_area_are_unmapped_apart_and_freed_together() {
    let area = area_of([frame_of(1), frame_of(2), frame_of(3)], 3 * PAGE_SIZE);
    let va = area.start();
    let (left, rest) = area.split(PAGE_SIZE);
    let (middle, right) = rest.split(PAGE_SIZE);
    drop(middle);
    assert_eq!(look(va + PAGE_SIZE), [None; 2]);
    assert_eq!((look(va), look(va + 2 * PAGE_SIZE)), ([Some(1); 2], [Some(3); 2]));
    drop(left);
    assert!(space().find(va).is_some());
    drop(right);
    assert!(space().find(va).is_none());
}

/// Returns the next random number (xorshift).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[ktest]
fn random_areas_show_their_own_frames_on_every_cpu() {
    let mut state = crate::arch::read_tsc() | 1;
    println!("seed {:#x}", state);
    let mut live: Vec<(KVirtArea, u64)> = Vec::new();
    for word in 0..3_000 {
        if live.len() == 64 || next(&mut state) % 3 == 0 && !live.is_empty() {
            let (area, _) = live.swap_remove(next(&mut state) % live.len());
            drop(area);
        } else {
            let pages = 1 + next(&mut state) % 80;
            let frames = (0..pages.min(8)).map(|_| frame_of(word));
            live.push((area_of(frames, pages * PAGE_SIZE), word));
        }
        if let Some((area, word)) = live.get(next(&mut state) % 64) {
            assert_eq!(look(area.start()), [Some(*word); 2]);
        }
    }
    drop(live);
    space().purge().unwrap();
    space().verify().unwrap();
}
