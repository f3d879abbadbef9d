//! The platform over a machine that is made of this program's memory: physical memory is a piece of
//! it, CPUs are threads, and the tests keep the TLB.

use crate::format::{Format, X86Levels4};
use crate::machine::Machine;
use crate::machine_tests::{CPU, Fake, Forgot, MOVES, is_interruptible};
use crate::platform::PageTables;
use crate::span::SpanError;
use crate::tables::Tables;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::vec;
use std::vec::Vec;
use vmalloc::{
    Frame, PageRange, Platform, PlatformError, Protect, Protection, ReadNofault, Space, Translate,
};
use vmalloc_conformance::{Conformance, Look, Seen};

/// In the upper half, in the middle of a table of every level.
pub(crate) const START: u64 = 0xf_ffff_c900_0000 + 3 * ENTRIES * ENTRIES + 5;

/// An entry of x86-64.
type Entry = crate::entry::Entry<X86Levels4>;
const PAGE_SHIFT: u32 = X86Levels4::PAGE_SHIFT;
const ENTRIES: u64 = 1 << X86Levels4::TABLE_SHIFT;

pub(crate) fn span(pages: u64) -> PageRange {
    PageRange::from_len(START, pages).expect("not empty")
}

pub(crate) fn range(from: u64, pages: u64) -> PageRange {
    PageRange::from_len(START + from, pages).expect("not empty")
}

pub(crate) fn platform(frames: u64, pages: u64) -> PageTables<Fake> {
    CPU.set(0);
    // SAFETY: nothing is translated here.
    unsafe { PageTables::new(Fake::new(frames), span(pages)) }.expect("a span")
}

pub(crate) fn entry(platform: &PageTables<Fake>, page: u64) -> Option<Entry> {
    Tables(platform.machine()).find(page).ok().map(|slot| slot.get())
}

pub(crate) fn map(platform: &PageTables<Fake>, range: PageRange) {
    // SAFETY: the test owns the whole span.
    unsafe { platform.map(range, Protection::ReadWrite, ()) }.expect("frames");
}

pub(crate) fn unmap(platform: &PageTables<Fake>, range: PageRange) -> Result<(), PlatformError> {
    // SAFETY: as above.
    unsafe { platform.unmap(&[range]) }
}

pub(crate) fn flush(platform: &PageTables<Fake>, range: PageRange) -> Result<(), PlatformError> {
    // SAFETY: as above.
    unsafe { platform.flush(&[range]) }
}

pub(crate) fn protect(
    platform: &PageTables<Fake>,
    range: PageRange,
    to: Protection,
) -> Result<(), PlatformError> {
    // SAFETY: as above.
    unsafe { platform.protect(range, to) }
}

pub(crate) fn unmap_and_flush(platform: &PageTables<Fake>, range: PageRange) {
    unmap(platform, range).and_then(|()| flush(platform, range)).expect("nothing refuses");
}

#[test]
fn pages_have_frames_of_their_own_until_they_are_flushed() {
    for pages in [1, 4, 5, 64, 65, 700, 1500] {
        let platform = platform(4000, 1 << 20);
        let (range, free) = (range(3, pages), platform.machine().free());
        map(&platform, range);
        let frames: BTreeSet<u64> =
            (range.start()..range.end()).filter_map(|page| platform.physical_page(page)).collect();
        assert_eq!(frames.len() as u64, pages);
        assert_eq!(
            (platform.physical_page(range.start() - 1), platform.physical_page(range.end())),
            (None, None)
        );
        let tables = free - platform.machine().free() - pages as usize;
        unmap(&platform, range).expect("nothing refuses");
        assert!((range.start()..range.end()).all(|page| platform.physical_page(page).is_none()));
        assert_eq!(platform.machine().free(), free - tables - pages as usize, "before the flush");
        unmap_and_flush(&platform, range);
        assert_eq!(platform.machine().free(), free - tables, "after the flush");
        assert!((range.start()..range.end()).all(|page| entry(&platform, page) == Some(Entry::NONE)));
    }
}

#[test]
fn a_refusal_at_any_frame_gives_all_back_but_for_tables() {
    for huge in [false, true] {
        for left in (0..).step_by(13) {
            let platform = platform(4000, 1 << 20);
            let range = range(500 - 5, 1400);
            platform.machine().left.store(left, Ordering::Relaxed);
            // SAFETY: the test owns the whole span.
            let mapped = unsafe {
                if huge {
                    platform.map_huge(range, Protection::ReadWrite, ())
                } else {
                    platform.map(range, Protection::ReadWrite, ())
                }
            };
            if mapped.is_ok() {
                assert!(left >= 1400);
                break;
            }
            let entries = (range.start()..range.end()).filter_map(|page| entry(&platform, page));
            assert!(entries.into_iter().all(|entry| entry == Entry::NONE), "{left} frames");
            let tables = 4000 - 2 - platform.machine().free();
            assert!(tables <= 7, "{tables} tables at {left} frames");
        }
    }
}

#[test]
fn leaves_stand_where_a_whole_aligned_run_goes() {
    let platform = platform(4000, 1 << 20);
    let offset = START.next_multiple_of(ENTRIES) - START;
    let range = range(offset - 3, 3 + 2 * ENTRIES + 7);
    // A table is there already, and has to make way.
    map(&platform, PageRange::from_len(START + offset, 2).expect("not empty"));
    unmap_and_flush(&platform, PageRange::from_len(START + offset, 2).expect("not empty"));
    let free = platform.machine().free();
    // SAFETY: the test owns the whole span.
    unsafe { platform.map_huge(range, Protection::ReadWrite, ()) }.expect("frames");
    let order = |page| Tables(platform.machine()).find(page).map(|slot| slot.order);
    let first = START + offset;
    assert_eq!(
        [first - 1, first, first + 511, first + 512, first + 1024].map(order),
        [0, 9, 9, 9, 0].map(Ok)
    );
    assert_eq!(platform.physical_page(first + 77), platform.physical_page(first).map(|frame| frame + 77));

    // A part of a leaf: it is split, and the rest stays.
    let part = PageRange::from_len(first + 100, 5).expect("not empty");
    let kept = platform.physical_page(first + 105);
    unmap_and_flush(&platform, part);
    assert_eq!((platform.physical_page(first + 104), platform.physical_page(first + 105)), (None, kept));
    unmap_and_flush(&platform, range);
    let tables = 2;
    assert!(free.abs_diff(platform.machine().free()) <= tables, "{free} {}", platform.machine().free());
}

/// Stops a thread when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_shootdown_waits_for_every_cpu_and_names_one_that_does_not_answer() {
    let platform = platform(200, 1000);
    platform.machine().online[1].store(true, Ordering::SeqCst);
    map(&platform, range(0, 2));
    let shot = range(0, 2);
    unmap(&platform, shot).expect("nothing refuses");
    let lost = flush(&platform, shot).expect_err("nobody answers");
    assert_eq!(lost.code, 1);
    assert!(entry(&platform, START).is_some_and(|entry| entry.has(X86Levels4::STALE)), "its frame is kept");

    platform.machine().answers.store(true, Ordering::SeqCst);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also when an assertion fails: else the other thread would be waited for for ever.
        let _stops = Stops(&stop);
        scope.spawn(|| {
            CPU.set(1);
            while !stop.load(Ordering::SeqCst) {
                if platform.machine().interrupted[1].swap(false, Ordering::SeqCst) {
                    platform.acknowledge();
                }
                std::thread::yield_now();
            }
        });
        flush(&platform, shot).expect("an answer");
        // It missed one, so it forgets everything first. Pages follow where it answered the
        // interrupt that was left from the first flush before the second flush asked.
        assert_eq!(platform.machine().forgotten(1).first(), Some(&Forgot::All));
        map(&platform, shot);
        unmap_and_flush(&platform, shot);
        assert_eq!(platform.machine().forgotten(1), [Forgot::Page(START), Forgot::Page(START + 1)]);
        map(&platform, range(0, 34));
        unmap_and_flush(&platform, range(0, 34));
        assert_eq!(platform.machine().forgotten(1), [Forgot::All]);
    });
    assert_eq!(entry(&platform, START), Some(Entry::NONE));
}

/// Returns a platform on two CPUs, of which one that is interrupted answers at once, unless it has
/// interrupts off.
pub(crate) fn answering(frames: u64, pages: u64) -> Arc<PageTables<Fake>> {
    let platform = Arc::new(platform(frames, pages));
    platform.machine().online[1].store(true, Ordering::SeqCst);
    let answers = Arc::downgrade(&platform);
    *platform.machine().on_interrupt.lock().expect("no panic") = Some(Box::new(move |cpu| {
        let (here, moves) = (CPU.replace(cpu), MOVES.replace(0));
        if is_interruptible()
            && let Some(platform) = answers.upgrade()
        {
            platform.acknowledge();
        }
        CPU.set(here);
        MOVES.set(moves);
    }));
    platform
}

#[test]
fn every_cpu_forgets_though_the_thread_moves_while_it_asks() {
    for answers_at_once in [true, false] {
        for moves in 1..1 << 6 {
            let platform = answering(200, 1000);
            if !answers_at_once {
                // Each CPU answers when the thread comes to it.
                *platform.machine().on_interrupt.lock().expect("no panic") = None;
            }
            let page = range(0, 1);
            map(&platform, page);
            check_all_forget(&platform, moves, || protect(&platform, page, Protection::Read));
            unmap(&platform, page).expect("nothing refuses");
            check_all_forget(&platform, moves, || flush(&platform, page));
            assert_eq!(entry(&platform, START), Some(Entry::NONE));
        }
    }
}

/// Calls `shoot`, which shoots the first page down, on a thread with these moves.
fn check_all_forget(platform: &PageTables<Fake>, moves: u64, shoot: impl Fn() -> Result<(), PlatformError>) {
    for cpu in [0, 1] {
        platform.machine().forgotten(cpu);
    }
    MOVES.set(moves);
    let shot = shoot();
    MOVES.set(0);
    CPU.set(0);
    shot.expect("every CPU answers");
    for cpu in [0, 1] {
        let forgotten = platform.machine().forgotten(cpu);
        assert!(forgotten.contains(&Forgot::Page(START)), "CPU {cpu}, moves {moves:#b}: {forgotten:?}");
    }
}

#[test]
fn spans_that_four_levels_do_not_translate_are_refused() {
    let new = |start, pages| {
        let span = PageRange::from_len(start, pages).expect("not empty");
        // SAFETY: nothing is translated here.
        unsafe { PageTables::new(Fake::new(10), span) }.err()
    };
    assert_eq!(new((1 << 35) - 1, 2), Some(SpanError::NotCanonical));
    assert_eq!(new(1 << 40, 1), Some(SpanError::NotCanonical));
    assert_eq!(new((1 << 35) - 1, 1), None);
    assert_eq!(new(1, 1 << 34), Some(SpanError::NoTables));
}

#[test]
fn frames_that_others_take_while_an_allocation_purges_are_waited_for() {
    const BYTES: usize = 8 << PAGE_SHIFT;
    let options = vmalloc::SpaceOptions::default().unmap_on_free().nodes(1);
    let space = Space::new(platform(200, 1 << 16), options).expect("metadata");
    let machine = space.platform().machine();
    let use_one = || {
        space.raw().alloc(&vmalloc::Request::new(BYTES)).map(|area| {
            // SAFETY: the area was just allocated, and nothing uses it.
            unsafe { space.raw().free(area) }.expect("an area");
        })
    };
    use_one().expect("frames");
    // The areas left are lazy.
    let mut rest = vec![Frame(0); machine.free()];
    machine.take_frames(&mut rest, ()).expect("as many as are free");

    let (ask, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let mut times = 3;
    *machine.on_return.lock().expect("no panic") = Some(Box::new(move || {
        if times > 0 {
            times -= 1;
            ask.send(()).expect("the other CPU");
            answered.recv().expect("the other CPU");
        }
    }));
    let use_one = &use_one;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            CPU.set(1);
            for () in asked.iter().take(3) {
                // All that came back, and lazy again.
                use_one().expect("what just came back");
                answer.send(()).expect("the first CPU");
            }
        });
        let got = use_one();
        // The other CPU is asked no more, and ends.
        *machine.on_return.lock().expect("no panic") = None;
        got.expect("what came back the fourth time");
    });
    assert_eq!(machine.free(), 0);
}

#[test]
fn a_space_on_it_is_whole_again_with_every_frame_back() {
    let platform = platform(4000, 1 << 16);
    let free = platform.machine().free();
    let space = Space::new(platform, vmalloc::SpaceOptions::default().unmap_on_free()).expect("metadata");
    for round in 0..3 {
        let areas: Vec<usize> = (1..40)
            .map(|pages| space.raw().alloc(&vmalloc::Request::new(pages << PAGE_SHIFT)).expect("room"))
            .collect();
        // SAFETY: the area is not in use.
        areas.into_iter().for_each(|addr| unsafe { space.raw().free(addr) }.expect("an area"));
        space.purge().expect("nothing refuses");
        space.verify().expect("whole");
        let tables = free - space.platform().machine().free();
        assert!(tables <= 8, "{tables} in round {round}");
    }
    let addr = space.raw().alloc(&vmalloc::Request::new(2 << PAGE_SHIFT)).expect("room");
    let mut bytes = [1; 10];
    assert_eq!(space.platform().read_nofault(addr + (2 << PAGE_SHIFT) - 4, &mut bytes), 4);
}

/// Looks at the simulated memory through the map of all memory: the span's own addresses are not
/// this program's.
pub(crate) struct ThroughFrames;

impl ThroughFrames {
    /// Returns the words behind `page`, of the span or of the map of all memory.
    fn words<F: Format>(platform: &PageTables<Fake<F>>, page: u64) -> Option<impl Iterator<Item = *mut u64>> {
        let machine = platform.machine();
        let first = machine.direct_map() as u64 >> F::PAGE_SHIFT;
        let is_direct = (first..first + machine.frames).contains(&page);
        let frame = if is_direct { page - first } else { platform.physical_page(page)? };
        let start = machine.memory.wrapping_add((frame << F::PAGE_SHIFT) as usize).cast::<u64>();
        Some((0..1 << (F::PAGE_SHIFT - 3)).map(move |nth| start.wrapping_add(nth)))
    }
}

impl<F: Format> Look<PageTables<Fake<F>>> for ThroughFrames {
    fn fill(&self, platform: &PageTables<Fake<F>>, _: usize, page: u64, word: u64) {
        let words = Self::words(platform, page).expect("a mapped page");
        words.for_each(|at| {
            // SAFETY: a frame of the simulated memory, which the kit owns.
            unsafe { at.write_volatile(word) };
        });
    }

    fn read(&self, platform: &PageTables<Fake<F>>, _: usize, page: u64) -> Seen {
        let Some(words) = Self::words(platform, page) else { return Seen::Fault };
        let mut loaded = words.map(|at| {
            // SAFETY: a frame of the simulated memory, which the kit owns.
            unsafe { at.read_volatile() }
        });
        let first = loaded.next().unwrap_or_default();
        if loaded.all(|word| word == first) { Seen::Word(first) } else { Seen::Mixed }
    }

    fn leads(&self, platform: &PageTables<Fake<F>>, _: usize, page: u64) -> Option<bool> {
        Some(platform.physical_page(page).is_some())
    }

    fn can_write(&self, platform: &PageTables<Fake<F>>, _: usize, page: u64) -> Option<bool> {
        let slot = Tables(platform.machine()).find(page).ok();
        slot.map(|slot| slot.get())
            .map(|entry| entry.is_present() && entry == entry.protected(Protection::ReadWrite))
    }

    fn zero(&self, platform: &PageTables<Fake<F>>, range: PageRange) -> bool {
        (range.start()..range.end()).for_each(|page| self.fill(platform, 0, page, 0));
        true
    }
}

#[test]
fn the_platform_keeps_its_contract() {
    let kit = Conformance::new(|| platform(4000, 2048), ThroughFrames).ops(200);
    let kit = kit.threads().frames().protect().relocate().read_nofault().translate();
    std::println!("{}", kit.check().unwrap());
}
