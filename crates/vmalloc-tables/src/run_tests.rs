//! Runs of frames: where leaves stand, and what becomes of them.

use crate::format::{Format, X86Levels4};
use crate::machine_tests::{CPU, Fake, Forgot};
use crate::platform::PageTables;
use crate::tables::Tables;
use crate::tests::{START, answering, entry, flush, map, platform, protect, unmap, unmap_and_flush};
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec;
use std::vec::Vec;
use vmalloc::{
    Frame, FrameRun, FrameSupply, MapFrames, PageRange, Protection, ReadNofault, Relocate, Space, Translate,
};

type Entry = crate::entry::Entry<X86Levels4>;
const ENTRIES: u64 = 1 << X86Levels4::TABLE_SHIFT;

/// The first page of the span at which a leaf can stand.
const FIRST: u64 = START.next_multiple_of(ENTRIES);

fn pages(from: u64, pages: u64) -> PageRange {
    PageRange::from_len(FIRST + from, pages).expect("not empty")
}

fn before(pages: u64) -> PageRange {
    PageRange::from_len(FIRST - pages, pages).expect("not empty")
}

fn take(platform: &PageTables<Fake>, count: u64) -> FrameRun {
    FrameRun { first: platform.take_run(count, ENTRIES).expect("frames"), count }
}

fn first_mapped(platform: &PageTables<Fake>, range: PageRange) -> Option<u64> {
    (range.start()..range.end()).find(|&page| platform.frame_at(page).is_some())
}

fn map_runs(platform: &PageTables<Fake>, range: PageRange, runs: &[FrameRun]) {
    // SAFETY: the test owns the whole span.
    unsafe { platform.map_runs(range, runs, Protection::ReadWrite) }.expect("tables");
}

fn order(platform: &PageTables<Fake>, page: u64) -> Result<u32, u32> {
    Tables(platform.machine()).find(page).map(|slot| slot.order)
}

/// Checks that `range` leads to the frames of `runs`, in order.
fn check_leads(platform: &PageTables<Fake>, range: PageRange, runs: &[FrameRun]) {
    let frames = runs.iter().flat_map(|run| run.frames());
    for (page, frame) in (range.start()..range.end()).zip(frames) {
        assert_eq!(platform.frame_at(page), Some(frame), "page {:#x}", page - FIRST);
    }
}

/// Returns a platform with one leaf at [`FIRST`], and its frames.
fn with_leaf() -> (PageTables<Fake>, FrameRun) {
    let platform = platform(4000, 1 << 20);
    let run = take(&platform, ENTRIES);
    map_runs(&platform, pages(0, ENTRIES), &[run]);
    assert_eq!(order(&platform, FIRST), Ok(9));
    (platform, run)
}

#[test]
fn leaves_stand_where_a_run_fills_an_aligned_2_mib_and_nowhere_else() {
    let platform = platform(4000, 1 << 20);
    let (large, odd) = (take(&platform, 2 * ENTRIES), take(&platform, ENTRIES + 1));
    let shifted = FrameRun { first: odd.first.plus(1), count: ENTRIES };
    let short = FrameRun { first: odd.first, count: 3 };
    let runs = [short, large, shifted, short];
    let range = PageRange::from_len(FIRST - 3, 3 + 3 * ENTRIES + 3).expect("not empty");
    map_runs(&platform, range, &runs);
    check_leads(&platform, range, &runs);
    let at = [FIRST - 1, FIRST, FIRST + ENTRIES, FIRST + 2 * ENTRIES, FIRST + 3 * ENTRIES];
    assert_eq!(at.map(|page| order(&platform, page)), [0, 9, 9, 0, 0].map(Ok));
    let leaf = entry(&platform, FIRST).expect("a leaf");
    assert!(leaf.is_present() && leaf == leaf.protected(Protection::ReadWrite));
    assert!(!leaf.has(X86Levels4::OWNED));
    unmap_and_flush(&platform, range);
    assert!((range.start()..range.end()).all(|page| platform.frame_at(page).is_none()));
    assert!(platform.are_taken(large.first, large.count), "frames stay with their owner");
}

#[test]
fn runs_of_any_lengths_are_mapped_in_order_with_fewer_frames_than_tables_hold() {
    let platform = platform(4000, 1 << 20);
    let all = take(&platform, 1500);
    // Out of order, with boundaries inside tables and across them.
    for cuts in [vec![700, 800], vec![1, 511, 512, 476], vec![100; 15], vec![1500]] {
        let mut first = all.first.0 + all.count;
        let runs: Vec<_> = cuts
            .iter()
            .map(|&count| {
                first -= count;
                FrameRun { first: Frame(first), count }
            })
            .collect();
        for from in [0, 7, 300] {
            let range = pages(from, 1500);
            map_runs(&platform, range, &runs);
            check_leads(&platform, range, &runs);
            unmap_and_flush(&platform, range);
        }
    }
}

#[test]
fn part_of_a_leaf_unmapped_splits_it_and_is_flushed() {
    let (platform, run) = with_leaf();
    platform.machine().forgotten(0);
    let part = pages(100, 5);
    unmap_and_flush(&platform, part);
    let forgotten = platform.machine().forgotten(0);
    assert!((part.start()..part.end()).all(|page| forgotten.contains(&Forgot::Page(page))), "{forgotten:?}");
    assert_eq!(order(&platform, FIRST), Ok(0), "it was split");
    assert!((part.start()..part.end()).all(|page| platform.frame_at(page).is_none()));
    let rest = FrameRun { first: run.first.plus(105), count: ENTRIES - 105 };
    check_leads(&platform, pages(105, ENTRIES - 105), &[rest]);
    check_leads(&platform, pages(0, 100), &[run]);
}

#[test]
fn another_protection_for_part_of_a_leaf_splits_it_and_for_all_keeps_it() {
    let (platform, run) = with_leaf();
    platform.machine().forgotten(0);
    protect(&platform, pages(3, 1), Protection::ReadExecute).expect("nothing refuses");
    assert_eq!(platform.machine().forgotten(0), [Forgot::Page(FIRST + 3)], "everybody is told");
    let bits = |nth| {
        let entry = entry(&platform, FIRST + nth).expect("a table");
        [Protection::ReadWrite, Protection::ReadExecute].map(|to| entry == entry.protected(to))
    };
    assert_eq!([2, 3, 4].map(bits), [[true, false], [false, true], [true, false]]);
    assert_eq!(order(&platform, FIRST), Ok(0));
    check_leads(&platform, pages(0, ENTRIES), &[run]);

    let (platform, _) = with_leaf();
    protect(&platform, pages(0, ENTRIES), Protection::Read).expect("nothing refuses");
    let leaf = entry(&platform, FIRST).expect("a leaf");
    assert!(order(&platform, FIRST) == Ok(9) && leaf == leaf.protected(Protection::Read));
}

#[test]
fn a_split_without_a_frame_for_the_table_is_refused_and_tried_again() {
    let (platform, run) = with_leaf();
    platform.machine().left.store(0, Ordering::Relaxed);
    unmap(&platform, pages(9, 1)).expect_err("no frame for a table");
    protect(&platform, pages(9, 1), Protection::Read).expect_err("no frame for a table");
    check_leads(&platform, pages(0, ENTRIES), &[run]);
    platform.machine().left.store(1, Ordering::Relaxed);
    unmap_and_flush(&platform, pages(9, 1));
    assert_eq!((platform.frame_at(FIRST + 9), platform.frame_at(FIRST + 8)), (None, Some(run.first.plus(8))));
}

#[test]
fn a_hint_clears_whole_leaves_and_leaves_parts_to_unmap() {
    let (platform, run) = with_leaf();
    // SAFETY: the test owns the whole span.
    unsafe { platform.discard_hint(pages(100, 5)) };
    check_leads(&platform, pages(0, ENTRIES), &[run]);
    // SAFETY: as above.
    unsafe { platform.discard_hint(pages(0, ENTRIES)) };
    assert_eq!(entry(&platform, FIRST), None, "no leaf, and no table");
    unmap_and_flush(&platform, pages(0, ENTRIES));
}

#[test]
fn a_table_in_a_leaf_s_place_goes_back_after_a_shootdown() {
    let platform = platform(4000, 1 << 20);
    let run = take(&platform, 20 * 64);
    // Tables first: of both halves, for more leaves than are made at once elsewhere.
    let range = pages(0, 2 * ENTRIES);
    map(&platform, range);
    unmap_and_flush(&platform, range);
    platform.machine().forgotten(0);
    let free = platform.machine().free();
    map_runs(&platform, range, &[FrameRun { count: 2 * ENTRIES, ..run }]);
    assert_eq!([FIRST, FIRST + ENTRIES].map(|page| order(&platform, page)), [Ok(9), Ok(9)]);
    assert_eq!(platform.machine().free(), free + 2, "two tables came back");
    assert_eq!(platform.machine().forgotten(0), [Forgot::All], "one shootdown for both");
}

#[test]
fn a_table_stays_where_a_cpu_does_not_answer() {
    let platform = platform(4000, 1 << 20);
    let run = take(&platform, ENTRIES);
    let range = pages(0, ENTRIES);
    map(&platform, range);
    unmap_and_flush(&platform, range);
    platform.machine().online[1].store(true, Ordering::SeqCst);
    let free = platform.machine().free();
    map_runs(&platform, range, &[run]);
    assert_eq!((order(&platform, FIRST), platform.machine().free()), (Ok(0), free));
    check_leads(&platform, range, &[run]);
}

/// Looks that any CPU may take at any page: whether they find something.
type Look = fn(&PageTables<Fake>) -> bool;

const LOOKS: [(&str, Look); 3] = [
    ("physical_page", |platform| platform.physical_page(FIRST).is_some()),
    ("frame_at", |platform| platform.frame_at(FIRST).is_some()),
    ("read_nofault", |platform| platform.read_nofault((FIRST << 12) as usize, &mut [0]) > 0),
];

/// Has another CPU look at a fresh platform, and the owner of its addresses act at each step of
/// that look in turn, of which there are more than `least`. Checks what the look has returned.
fn at_each_step<T>(
    least: usize,
    act: impl Fn(&PageTables<Fake>) + Send + Clone + 'static,
    prepare: impl Fn(&PageTables<Fake>),
    look: impl Fn(&PageTables<Fake>) -> T,
    check: impl Fn(T, usize),
) {
    for step in 1.. {
        let platform = answering(4000, 1 << 20);
        prepare(&platform);
        let (owner, act) = (Arc::downgrade(&platform), act.clone());
        let acts = move || {
            let Some(platform) = owner.upgrade() else { return };
            let here = CPU.replace(0);
            act(&platform);
            CPU.set(here);
        };
        *platform.machine().on_step.lock().expect("no panic") = (step, Some(Box::new(acts)));
        CPU.set(1);
        let found = look(&platform);
        CPU.set(0);
        check(found, step);
        if platform.machine().on_step.lock().expect("no panic").1.is_some() {
            assert!(step > least, "{step} steps");
            break;
        }
    }
}

/// A CPU walks to a page while the owner of the addresses puts a leaf in the place of the table,
/// which goes back and has other content then, and unmaps the leaf again.
#[test]
fn a_walk_never_reads_a_table_that_went_back() {
    let range = pages(0, ENTRIES);
    let put_leaf = move |platform: &PageTables<Fake>| {
        map_runs(platform, range, &[take(platform, ENTRIES)]);
        unmap(platform, range).expect("nothing refuses");
    };
    let prepare = |platform: &PageTables<Fake>| {
        map(platform, range);
        unmap_and_flush(platform, range);
    };
    for (name, look) in LOOKS {
        at_each_step(4, put_leaf, prepare, look, |found, step| assert!(!found, "{name} at step {step}"));
    }
}

/// A CPU reads a page while its owner unmaps and flushes it, and the frame has other content then.
#[test]
fn a_read_never_shows_a_frame_that_went_back() {
    const NUMBER: u64 = 0x1234_5678_9abc_def0;
    let prepare = |platform: &PageTables<Fake>| {
        map(platform, pages(0, 1));
        let frame = platform.physical_page(FIRST).expect("it is mapped");
        let word = platform.machine().memory.wrapping_add((frame << 12) as usize).cast::<u64>();
        // SAFETY: the test owns the page, and its frame.
        unsafe { word.write_volatile(NUMBER) };
    };
    // A CPU with interrupts off does not answer, and the frame stays.
    let free = |platform: &PageTables<Fake>| {
        let _ = unmap(platform, pages(0, 1)).and_then(|()| flush(platform, pages(0, 1)));
    };
    let look = |platform: &PageTables<Fake>| {
        let mut number = [0; 8];
        (platform.read_nofault((FIRST << 12) as usize, &mut number), number)
    };
    at_each_step(5, free, prepare, look, |(count, number), step| {
        assert!(count == 0 || number == NUMBER.to_le_bytes(), "step {step}: {number:x?}");
    });
}

#[test]
fn without_a_frame_for_a_table_nothing_is_mapped() {
    for left in 0.. {
        let platform = platform(4000, 1 << 20);
        let run = take(&platform, 2 * ENTRIES + 9);
        let range = before(4).start()..FIRST + 2 * ENTRIES + 5;
        let range = PageRange::new(range.start, range.end).expect("not empty");
        let runs = [FrameRun { count: 4, ..run }, FrameRun { first: run.first, count: 2 * ENTRIES + 5 }];
        platform.machine().left.store(left, Ordering::Relaxed);
        // SAFETY: the test owns the whole span.
        if unsafe { platform.map_runs(range, &runs, Protection::Read) }.is_ok() {
            check_leads(&platform, range, &runs);
            assert!(left > 1, "tables take frames");
            break;
        }
        assert_eq!(first_mapped(&platform, range), None, "{left} frames");
    }
}

#[test]
fn devices_get_no_leaves() {
    let platform = platform(4000, 1 << 20);
    let device = FrameRun { first: Frame(1 << 20), count: ENTRIES };
    map_runs(&platform, pages(0, ENTRIES), &[device]);
    assert_eq!(order(&platform, FIRST), Ok(0));
    check_leads(&platform, pages(0, ENTRIES), &[device]);
}

#[test]
fn a_leaf_is_relocated_page_by_page() {
    let (platform, run) = with_leaf();
    let (from, to) = (pages(0, ENTRIES), pages(5000, ENTRIES));
    // SAFETY: the test owns the whole span.
    unsafe { platform.relocate(from, to) }.expect("tables");
    check_leads(&platform, to, &[run]);
    assert_eq!(first_mapped(&platform, from), None);
}

#[test]
fn vmap_finds_the_runs_in_a_list_and_aligns_its_area() {
    let platform = platform(6000, 1 << 16);
    let (low, high) = (take(&platform, ENTRIES), take(&platform, ENTRIES));
    let single = platform.take_run(1, 1).expect("a frame");
    let free = platform.machine().free();
    let options = vmalloc::SpaceOptions::default().unmap_on_free();
    let space = Space::new(platform, options).expect("metadata");
    let runs = [high, low, FrameRun { first: single, count: 1 }];
    let list: Vec<Frame> = runs.iter().flat_map(|run| run.frames()).collect();
    for by_runs in [false, true] {
        let addr = match by_runs {
            true => space.raw().map_runs(&runs, Protection::ReadWrite, None),
            false => space.raw().map(&list, Protection::ReadWrite, None),
        };
        let addr = addr.expect("room");
        let range = PageRange::from_len(addr as u64 >> 12, list.len() as u64).expect("not empty");
        check_leads(space.platform(), range, &runs);
        let page = range.start();
        let orders = [page, page + ENTRIES, page + 2 * ENTRIES].map(|page| order(space.platform(), page));
        assert_eq!(orders, [9, 9, 0].map(Ok));
        assert_eq!(space.platform().frame_at(range.end()), None, "its guard");
        // SAFETY: nothing uses it.
        unsafe { space.raw().unmap(addr) }.expect("an area");
        space.purge().expect("nothing refuses");
        space.verify().expect("whole");
        assert_eq!(entry(space.platform(), page), None, "the leaf is gone");
    }
    assert!(free - space.platform().machine().free() <= 4, "tables alone");
    let error = space.raw().map_runs(&[FrameRun { count: 0, ..low }], Protection::Read, None);
    assert!(matches!(error, Err(vmalloc::AllocError::Request(vmalloc::RequestError::ZeroSize))));
    let beyond = FrameRun { first: low.first, count: 5990 };
    let error = space.raw().map_runs(&[high, beyond], Protection::Read, None);
    assert!(matches!(error, Err(vmalloc::AllocError::BadFrame { .. })), "{error:?}");
    let wrapping = FrameRun { first: Frame(u64::MAX), count: 2 };
    let error = space.raw().map_runs(&[wrapping], Protection::Read, None);
    assert!(matches!(error, Err(vmalloc::AllocError::BadFrame { .. })), "{error:?}");
    let endless = FrameRun { first: low.first, count: u64::MAX };
    space.raw().map_runs(&[endless, endless], Protection::Read, None).expect_err("no addresses");
    assert_eq!(entry(space.platform(), FIRST).unwrap_or(Entry::NONE), Entry::NONE);
}
