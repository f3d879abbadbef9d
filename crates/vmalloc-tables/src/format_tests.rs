//! The formats of other machines than x86-64: their entries bit by bit, groups, and the order in
//! which entries in use are broken and made.

use crate::entry::{Entry, entries};
use crate::format::{Aarch64Pages4K, Aarch64Pages16K, Format, Sv39, Sv48, X86Levels4};
use crate::machine::Reach;
use crate::machine_tests::{CPU, Fake, Forgot};
use crate::platform::PageTables;
use crate::span::SpanError;
use crate::tables::Tables;
use crate::tests::ThroughFrames;
use std::boxed::Box;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::vec::Vec;
use vmalloc::{Frame, FrameRun, FrameSupply, MapFrames, PageRange, Platform, Protect, Protection, Translate};
use vmalloc_conformance::Conformance;

/// The translations of CPUs that read the tables of each format.
const WITH_4K: u64 = 0;
const WITH_16K: u64 = 1 << 20;
const IN_SV39: u64 = 8 << 60;
const IN_SV48: u64 = 9 << 60;

/// A page of the upper half, in the middle of a table of every level.
fn start<F: Format>() -> u64 {
    let half = 1 << (F::HALF_SHIFT - F::PAGE_SHIFT);
    (1 << (u64::BITS - F::PAGE_SHIFT)) - half / 2 + 3 * entries::<F>() + 5
}

/// The first page from there on at which a leaf can stand.
fn first<F: Format>() -> u64 {
    start::<F>().next_multiple_of(entries::<F>())
}

fn pages<F: Format>(from: u64, count: u64) -> PageRange {
    PageRange::from_len(first::<F>() + from, count).expect("not empty")
}

fn platform<F: Format>(frames: u64, translation: u64, reach: Reach) -> PageTables<Fake<F>> {
    CPU.set(0);
    let span = PageRange::from_len(start::<F>(), 8 * entries::<F>()).expect("not empty");
    // SAFETY: nothing is translated here.
    unsafe { PageTables::new(Fake::with(frames, translation, reach), span) }.expect("a span")
}

fn arm() -> PageTables<Fake<Aarch64Pages4K>> {
    platform(4000, WITH_4K, Reach::All)
}

fn entry<F: Format>(platform: &PageTables<Fake<F>>, page: u64) -> u64 {
    Tables(platform.machine()).find(page).map_or(0, |slot| slot.get().0)
}

fn map_runs<F: Format>(platform: &PageTables<Fake<F>>, range: PageRange, first: Frame) {
    let runs = [FrameRun { first, count: range.len() }];
    // SAFETY: the test owns the whole span.
    unsafe { platform.map_runs(range, &runs, Protection::ReadWrite) }.expect("tables");
}

#[test]
fn entries_have_the_bits_that_each_architecture_reads() {
    fn bits<F: Format>() -> [u64; 6] {
        let page = |protection| Entry::<F>::page(Frame(5), F::PRESENT | F::access(protection)).0;
        let all = [Protection::Read, Protection::ReadWrite, Protection::ReadExecute].map(page);
        let leaf = Entry::<F>::leaf(Frame(512), F::PRESENT | F::access(Protection::ReadWrite)).0;
        [all[0], all[1], all[2], leaf, Entry::<F>::table(Frame(5)).0, F::OWNED | F::STALE | F::GROUP]
    }
    let nx = 1 << 63;
    assert_eq!(bits::<X86Levels4>(), [nx | 0x5001, nx | 0x5003, 0x5001, nx | 0x20_0083, 0x5003, 0x600]);
    // Never executed below, accessed, shared, a page; PXN is bit 53, read only bit 7, ours bit 57.
    let page = 1 << 54 | 0x703;
    let (pxn, read_only, system) = (1 << 53, 1 << 7, 3 << 55 | 1 << 52);
    let arm = [pxn | read_only, pxn, read_only].map(|bits| page | 0x5000 | bits);
    let block = 1 << 57 | 1 << 54 | pxn | 0x20_0701;
    assert_eq!(bits::<Aarch64Pages4K>(), [arm[0], arm[1], arm[2], block, 0x5003, system]);
    let arm = [pxn | read_only, pxn, read_only].map(|bits| page | 0x14000 | bits);
    let block = 1 << 57 | 1 << 54 | pxn | 0x80_0701;
    assert_eq!(bits::<Aarch64Pages16K>(), [arm[0], arm[1], arm[2], block, 0x14003, system]);
    // Dirty, accessed, global, read and present; write is bit 2, execute bit 3.
    let riscv = [0x14e3, 0x14e7, 0x14eb, 512 << 10 | 0xe7, 0x1401, 0x300];
    assert_eq!((bits::<Sv39>(), bits::<Sv48>()), (riscv, riscv));
}

#[test]
fn each_format_keeps_the_contract_of_platforms() {
    fn check<F: Format>(translation: u64, reach: Reach) {
        let make = move || platform::<F>(4000, translation, reach);
        let kit = Conformance::new(make, ThroughFrames).ops(if cfg!(miri) { 5 } else { 60 });
        kit.frames().protect().relocate().read_nofault().translate().check().unwrap();
    }
    check::<Aarch64Pages4K>(WITH_4K, Reach::All);
    check::<Sv39>(IN_SV39, Reach::This);
    if !cfg!(miri) {
        check::<Sv48>(IN_SV48, Reach::This);
        check::<Aarch64Pages16K>(WITH_16K, Reach::All);
    }
}

#[test]
fn whole_aligned_groups_of_a_run_have_the_hint_and_no_other_page() {
    fn check<F: Format>(platform: &PageTables<Fake<F>>) {
        let size = 1_u64 << F::GROUP_ORDER;
        let run = platform.take_run(4 * size, size).expect("frames");
        // Three pages before the first whole group, two whole groups, and one page.
        let range = pages::<F>(size - 3, 3 + 2 * size + 1);
        map_runs(platform, range, run.plus(size - 3));
        for nth in 0..4 * size {
            let (page, is_mapped) = (first::<F>() + nth, (size - 3..3 * size + 1).contains(&nth));
            let is_group = (size..3 * size).contains(&nth);
            let found = entry(platform, page);
            assert_eq!((found & F::PRESENT != 0, found & F::GROUP != 0), (is_mapped, is_group), "page {nth}");
            assert!(!is_mapped || platform.frame_at(page) == Some(run.plus(nth)), "page {nth}");
        }
        // Out of step there are none.
        let shifted = pages::<F>(5 * size, 2 * size);
        map_runs(platform, shifted, run.plus(1));
        assert!((shifted.start()..shifted.end()).all(|page| entry(platform, page) & F::GROUP == 0));
    }
    check(&arm());
    check(&platform::<Aarch64Pages16K>(1000, WITH_16K, Reach::All));
}

/// Maps two groups, and has `act` change part of the second. Returns the platform.
fn with_part_of_a_group(
    act: impl Fn(&PageTables<Fake<Aarch64Pages4K>>, PageRange),
) -> PageTables<Fake<Aarch64Pages4K>> {
    let platform = Arc::new(arm());
    let run = platform.take_run(32, 16).expect("frames");
    map_runs(&platform, pages::<Aarch64Pages4K>(0, 32), run);
    // At the first time that CPUs forget, none may find the group.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (looks, into) = (Arc::downgrade(&platform), Arc::clone(&seen));
    let look = move |ranges: &[PageRange]| {
        let Some(platform) = looks.upgrade() else { return };
        let group = pages::<Aarch64Pages4K>(16, 16);
        let present = (group.start()..group.end()).filter(|&page| entry(&platform, page) & 1 != 0).count();
        into.lock().expect("no panic").push((ranges.to_vec(), present));
    };
    *platform.machine().on_forget.lock().expect("no panic") = Some(Box::new(look));
    act(&platform, pages::<Aarch64Pages4K>(20, 2));
    *platform.machine().on_forget.lock().expect("no panic") = None;
    let broken = std::vec![pages::<Aarch64Pages4K>(16, 16)];
    assert_eq!(seen.lock().expect("no panic").first(), Some(&(broken, 0)), "broken before it is made");
    for nth in (0..32).filter(|nth| !(20..22).contains(nth)) {
        let page = first::<Aarch64Pages4K>() + nth;
        assert_eq!(entry(&platform, page) & Aarch64Pages4K::GROUP != 0, nth < 16, "page {nth}");
        assert_eq!(platform.frame_at(page), Some(run.plus(nth)));
    }
    Arc::into_inner(platform).expect("nobody else has it")
}

#[test]
fn a_group_that_changes_in_part_is_broken_and_made_as_single_pages() {
    // SAFETY: the test owns the whole span.
    let platform = with_part_of_a_group(|platform, part| unsafe {
        platform.unmap(&[part]).expect("nothing refuses");
    });
    assert_eq!(platform.frame_at(first::<Aarch64Pages4K>() + 20), None);
    // SAFETY: as above.
    let platform = with_part_of_a_group(|platform, part| unsafe {
        platform.protect(part, Protection::Read).expect("nothing refuses");
    });
    let page = first::<Aarch64Pages4K>() + 20;
    assert!(platform.is_back((page << 12) as usize, Protection::Read));
    assert!(!platform.is_back((page << 12) as usize, Protection::ReadWrite), "it may not be written");
    assert!(platform.is_back(((page + 2) << 12) as usize, Protection::ReadWrite));
    assert!(!platform.is_back(((page + 20) << 12) as usize, Protection::Read), "nothing is there");
}

#[test]
fn a_leaf_that_is_split_is_broken_before_the_table_is_made() {
    let platform = Arc::new(arm());
    let run = platform.take_run(512, 512).expect("frames");
    let range = pages::<Aarch64Pages4K>(0, 512);
    map_runs(&platform, range, run);
    let leaf = entry(&platform, range.start());
    assert_eq!(leaf, Entry::<Aarch64Pages4K>::leaf(run, 1 | 1 << 53).0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (looks, into) = (Arc::downgrade(&platform), Arc::clone(&seen));
    let look = move |_: &[PageRange]| {
        let found = looks.upgrade().map(|platform| Tables(platform.machine()).find(range.start()).is_ok());
        into.lock().expect("no panic").push(found);
    };
    *platform.machine().on_forget.lock().expect("no panic") = Some(Box::new(look));
    // SAFETY: the test owns the whole span.
    unsafe { platform.unmap(&[pages::<Aarch64Pages4K>(7, 1)]) }.expect("nothing refuses");
    *platform.machine().on_forget.lock().expect("no panic") = None;
    assert_eq!(*seen.lock().expect("no panic"), [Some(false), Some(true)], "nothing, and then a table");
    assert_eq!(platform.physical_page(range.start() + 8), Some(run.0 + 8));
}

#[test]
fn no_cpu_is_interrupted_where_forgetting_reaches_all() {
    let platform = arm();
    // It would never answer.
    platform.machine().online[1].store(true, Ordering::SeqCst);
    let ranges: Vec<PageRange> = (0..1000).map(|nth| pages::<Aarch64Pages4K>(2 * nth, 1)).collect();
    for &range in &ranges {
        // SAFETY: the test owns the whole span.
        unsafe { platform.map(range, Protection::ReadWrite, ()) }.expect("frames");
    }
    let free = platform.machine().free();
    platform.machine().forgotten(0);
    // SAFETY: as above.
    unsafe { platform.unmap(&ranges).and_then(|()| platform.flush(&ranges)) }.expect("nobody is asked");
    assert_eq!(platform.machine().forgotten(0), [Forgot::All], "once for all");
    assert!(!platform.machine().interrupted[1].load(Ordering::SeqCst));
    assert_eq!(platform.machine().free(), free + 1000);
}

#[test]
fn machines_and_spans_that_do_not_fit_a_format_are_refused_and_lose_no_frame() {
    fn refusal<F: Format>(machine: Fake<F>, start: u64, pages: u64) -> Option<SpanError> {
        let span = PageRange::from_len(start, pages).expect("not empty");
        let taken = Arc::clone(&machine.taken);
        // SAFETY: nothing is translated here.
        let refusal = unsafe { PageTables::new(machine, span) }.err();
        assert!(refusal.is_none() || taken.load(Ordering::Relaxed) == 0, "{refusal:?}");
        refusal
    }
    let sv39 = || Fake::<Sv39>::with(300, IN_SV39, Reach::This);
    assert_eq!(refusal(sv39(), 1, (1 << 26) - 1), None, "256 GiB but for a page");
    assert_eq!(refusal(sv39(), 1, 1 << 26), Some(SpanError::NotCanonical), "beyond 39 bits");
    assert_eq!(refusal(sv39(), (1 << 52) - (1 << 26), 1), None);
    assert_eq!(refusal(sv39(), (1 << 52) - (1 << 26) - 1, 1), Some(SpanError::NotCanonical));
    let is_read = |of: Fake<Sv48>| refusal(of, 1, 1);
    assert_eq!(is_read(Fake::with(9, IN_SV48, Reach::This)), None);
    assert_eq!(is_read(Fake::with(9, IN_SV39, Reach::This)), Some(SpanError::OtherFormat), "another mode");
    let arm = |features| refusal(Fake::<Aarch64Pages4K>::with(9, features, Reach::All), 1, 1);
    assert_eq!([0, 1 << 28, 15 << 28].map(arm), [None, None, Some(SpanError::OtherFormat)]);
    let arm = |features| refusal(Fake::<Aarch64Pages16K>::with(9, features, Reach::All), 1, 1);
    assert_eq!([0, 1 << 20, 2 << 20].map(arm), [Some(SpanError::OtherFormat), None, None]);
    let five_levels = Fake::<X86Levels4>::with(9, 1 << 5 | 1 << 12, Reach::This);
    assert_eq!(refusal(five_levels, 1, 1), Some(SpanError::OtherFormat));
    let alone = Fake::<Aarch64Pages4K>::with(9, WITH_4K, Reach::This);
    assert_eq!(refusal(alone, 1, 1), Some(SpanError::NoBroadcast));
    let mut far = Fake::<Sv48>::with(9, IN_SV48, Reach::This);
    far.root = Frame(9);
    assert_eq!(refusal(far, 1, 1), Some(SpanError::RootOutOfReach));
}
