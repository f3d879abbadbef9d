//! Looks at kernel virtual areas from several CPUs, and measures them. Of this file's tests, those
//! of stale translations fail with ostd as published.

use alloc::format;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::{VMALLOC_VADDR_RANGE, kvirt_area::KVirtArea, paddr_to_vaddr, way};
use crate::{
    arch::mm::__memcpy_fallible,
    cpu::{CpuId, CpuSet, PinCurrentCpu, all_cpus, num_cpus},
    irq,
    mm::{
        Frame, FrameAllocOptions, PAGE_SIZE,
        dma::DmaCoherent,
        page_prop::{CachePolicy, PageFlags, PageProperty, PrivilegedPageFlags},
    },
    prelude::*,
    smp,
    sync::finish_grace_period,
    util::range_alloc::RangeAllocator,
};

/// The words that the owner of an area writes, and the next owner of its frame.
const OURS: u64 = 0x1111_1111_1111_1111;
const THEIRS: u64 = 0x2222_2222_2222_2222;

/// Returns the word at an address, or none where this CPU faults.
pub(super) fn peek(va: Vaddr) -> Option<u64> {
    let mut word = 0u64;
    // SAFETY: The word is writable, and a fault at the address is recovered from.
    let left = unsafe { __memcpy_fallible((&raw mut word).cast(), va as *const u8, size_of::<u64>()) };
    (left == 0).then_some(word)
}

static ASKED: AtomicUsize = AtomicUsize::new(0);
static WORD: AtomicU64 = AtomicU64::new(0);
static HAS_FAULTED: AtomicBool = AtomicBool::new(false);

fn answer() {
    let word = peek(ASKED.load(Ordering::Relaxed));
    WORD.store(word.unwrap_or(0), Ordering::Relaxed);
    HAS_FAULTED.store(word.is_none(), Ordering::Relaxed);
}

/// Returns the word at an address as another CPU sees it, or none where that CPU faults.
pub(super) fn peek_elsewhere(va: Vaddr) -> Option<u64> {
    let here = cpu();
    let other = all_cpus().find(|cpu| *cpu != here).expect("two CPUs");
    ASKED.store(va, Ordering::Relaxed);
    smp::inter_processor_call(&CpuSet::from(other), answer).wait();
    (!HAS_FAULTED.load(Ordering::Relaxed)).then(|| WORD.load(Ordering::Relaxed))
}

pub(super) fn cpu() -> CpuId {
    irq::disable_local().current_cpu()
}

/// Allocates a frame that is full of a word.
pub(super) fn frame_of(word: u64) -> Frame<()> {
    let frame = FrameAllocOptions::new().alloc_frame().unwrap();
    fill(&frame, word);
    frame
}

fn fill(frame: &Frame<()>, word: u64) {
    let start = paddr_to_vaddr(frame.paddr()) as *mut u64;
    for nth in 0..PAGE_SIZE / size_of::<u64>() {
        // SAFETY: The frame is the caller's, and read as bytes alone.
        unsafe { start.add(nth).write_volatile(word) };
    }
}

fn prop() -> PageProperty {
    PageProperty {
        flags: PageFlags::RW,
        cache: CachePolicy::Writeback,
        priv_flags: PrivilegedPageFlags::empty(),
    }
}

pub(super) fn area_of(frames: impl IntoIterator<Item = Frame<()>>, size: usize) -> KVirtArea {
    KVirtArea::map_frames(size, 0, frames.into_iter(), prop())
}

fn pass() {
    // SAFETY: Where this is called by an interrupt, the CPU was idle or in `wait`: no test leaves a
    // task behind, and neither reads by RCU.
    unsafe { finish_grace_period() };
}

/// Ends the grace periods that have begun: that under way, and that of what has come since. A CPU
/// passes by switching to another task, and in this kernel the others have none to switch to.
pub(super) fn wait() {
    for _ in 0..2 {
        smp::inter_processor_call(&CpuSet::new_full(), pass).wait();
    }
}

/// Returns whether a frame has no owner but the caller, once all CPUs have passed.
pub(super) fn becomes_free(frame: &Frame<()>) -> bool {
    wait();
    frame.reference_count() == 1
}

/// Drops an area with one page that a CPU has read, and gives its frame to a next owner, once the area has given
/// it back. Returns what the CPU sees at the address then.
fn seen_after_free(peek: fn(Vaddr) -> Option<u64>, page: usize) -> Option<u64> {
    let here = cpu();
    let (frame, offset) = (frame_of(OURS), page * PAGE_SIZE);
    let area = KVirtArea::map_frames(64 * PAGE_SIZE, offset, [frame.clone()].into_iter(), prop());
    let va = area.start() + offset;
    assert_eq!(peek(va), Some(OURS));
    drop(area);
    if !becomes_free(&frame) {
        way::settle();
        assert!(becomes_free(&frame), "the frame is lost");
    }
    fill(&frame, THEIRS);
    let seen = peek(va);
    assert_eq!(cpu(), here, "the test was moved to another CPU");
    seen
}

/// Looks at many pages: a CPU may lose a translation at any time, and QEMU's lose it to another one
/// of the same number modulo 64 or more.
fn is_next_owner_seen(peek: fn(Vaddr) -> Option<u64>) -> bool {
    (0..64).any(|page| seen_after_free(peek, page) == Some(THEIRS))
}

#[ktest]
fn next_owner_is_not_seen_through_a_freed_area_on_this_cpu() {
    assert!(!is_next_owner_seen(peek), "the freed address shows the next owner's word");
}

#[ktest]
fn next_owner_is_not_seen_through_a_freed_area_on_another_cpu() {
    if num_cpus() > 1 {
        assert!(!is_next_owner_seen(peek_elsewhere), "the freed address shows the next owner's word");
    }
}

/// Areas of 64 pages: some hundreds of them reach the threshold of lazy pages, and so each other's
/// addresses.
#[ktest]
fn reused_addresses_show_their_new_frames_on_another_cpu() {
    if num_cpus() == 1 {
        return;
    }
    let mut starts = Vec::new();
    for round in 1..=1000 {
        let area = area_of((0..8).map(|_| frame_of(round)), 64 * PAGE_SIZE);
        for va in area.range().step_by(PAGE_SIZE).take(8) {
            assert_eq!(peek_elsewhere(va), Some(round), "the new area shows an old frame");
        }
        starts.push(area.start());
    }
    starts.sort_unstable();
    starts.dedup();
    assert!(starts.len() < 1000, "no address was reused");
}

const HOLES: usize = 15_000;

/// Measures a pair of alloc and free, in instructions if QEMU counts them.
fn measure(what: &str, pairs: usize, mut pair: impl FnMut()) {
    pair();
    way::settle();
    let start = crate::arch::read_tsc();
    (0..pairs).for_each(|_| pair());
    // Work that was put off is part of the cost.
    way::settle();
    let cost = (crate::arch::read_tsc() - start) / pairs as u64;
    println!("BENCH {} {}", what, cost);
}

/// Returns the allocator of kernel addresses, with holes of one page from `start` on.
fn ranges_with_holes(start: Vaddr) -> RangeAllocator {
    let ranges = RangeAllocator::new(VMALLOC_VADDR_RANGE);
    let page = |nth| start + nth * PAGE_SIZE..start + (nth + 1) * PAGE_SIZE;
    (0..2 * HOLES).for_each(|nth| ranges.alloc_specific(&page(nth)).unwrap());
    (0..2 * HOLES).step_by(2).for_each(|nth| ranges.free(page(nth)));
    ranges
}

fn measure_ranges(what: &str, ranges: &RangeAllocator) {
    let pair = || ranges.free(ranges.alloc(2 * PAGE_SIZE).unwrap());
    measure(&format!("range-{what}"), way::PAIRS, pair);
    let start = VMALLOC_VADDR_RANGE.start + 2 * HOLES * PAGE_SIZE;
    let given = || {
        ranges.alloc_specific(&(start..start + PAGE_SIZE)).unwrap();
        ranges.free(start..start + PAGE_SIZE);
    };
    measure(&format!("given-range-{what}"), way::PAIRS, given);
}

pub(super) fn unmapped(size: usize) -> KVirtArea {
    // SAFETY: Nothing is mapped.
    unsafe { KVirtArea::map_untracked_frames(size, 0, 0..0, prop()) }
}

fn measure_areas(what: &str) {
    let size = 2 * PAGE_SIZE;
    measure(&format!("unmapped-area-{what}"), way::PAIRS, || drop(unmapped(size)));
    let frames = [frame_of(OURS), frame_of(OURS)];
    measure(&format!("mapped-area-{what}"), way::PAIRS, || drop(area_of(frames.clone(), size)));
}

/// Two pages are asked for where all holes have one. Runs on one CPU, where QEMU can count.
#[ktest]
fn bench() {
    if num_cpus() > 1 {
        return;
    }
    measure_ranges("plain", &RangeAllocator::new(VMALLOC_VADDR_RANGE));
    let above = VMALLOC_VADDR_RANGE.end - 2 * HOLES * PAGE_SIZE;
    measure_ranges("before-holes", &ranges_with_holes(above));
    measure_ranges("behind-holes", &ranges_with_holes(VMALLOC_VADDR_RANGE.start));
    measure_areas("plain");
    let tail = unmapped(1024 * PAGE_SIZE);
    let mut areas: Vec<_> = (0..2 * HOLES).map(|_| Some(unmapped(PAGE_SIZE))).collect();
    areas.iter_mut().step_by(2).for_each(|area| *area = None);
    way::settle();
    // As published, new areas come from the lowest range that is large enough, and from its end.
    measure_areas("before-holes");
    let rest = unmapped(way::rest(areas.iter().flatten()));
    drop(tail);
    way::settle();
    measure_areas("behind-holes");
    drop((rest, areas));
}

/// Counts interrupts of other CPUs, for buffers that devices see and that are not coherent.
#[ktest]
fn interrupts() {
    let before = smp::REMOTE_CALLS.load(Ordering::Relaxed);
    for _ in 0..way::BUFFERS {
        drop(DmaCoherent::alloc(2, false).unwrap());
    }
    way::settle();
    let calls = smp::REMOTE_CALLS.load(Ordering::Relaxed) - before;
    println!("BENCH interrupts-of-{}-buffers {}", way::BUFFERS, calls);
}
