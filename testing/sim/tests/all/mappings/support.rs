//! Machines of every kind, and what tests do with them.

pub(crate) use crate::{PAGE, free};
use crate::{set_block_slots, short};
use vmalloc::{Frame, FrameSupply, Kind, PageRange, Platform, Space, SpaceOptions};
use vmalloc_harness::Told;
use vmalloc_sim::harness::{Simulated, check_whole};
use vmalloc_sim::{Options, Sim};

/// The span.
const START: u64 = 0x1000;
pub(crate) const PAGES: u64 = 0x1000;
/// Frames of the supply, and the first frame of a device.
pub(crate) const FRAMES: u64 = 0x2000;
pub(crate) const DEVICES: u64 = 8;

/// Returns a machine of `cpus` CPUs without special powers.
pub(crate) fn plain(pages: u64, cpus: usize) -> Options {
    let span = PageRange::from_len(START, pages).expect("not empty");
    Options::new(span).cpus(cpus).frames(FRAMES).devices(DEVICES).huge_order(3).seed(1)
}

/// Returns every combination of what a machine can do, but for small TLBs and few frames.
pub(crate) fn machines(pages: u64) -> Vec<Options> {
    (0..32).map(|powers| vmalloc_programs::machines::machine(pages, powers)).collect()
}

/// Settings with which a freed area becomes lazy, or is cached, and the slots of blocks.
fn all_options() -> [(SpaceOptions, u64); 4] {
    let unmapping = SpaceOptions::default().unmap_on_free();
    [(SpaceOptions::default(), 0), (unmapping, 0), (unmapping.lazy_max_pages(1), 64), (unmapping, 64)]
}

/// Returns a space on `options`, used from CPU 0.
pub(crate) fn space(options: Options, space_options: SpaceOptions) -> Space<Sim> {
    Sim::run_on(0);
    Space::new(options.build(), space_options).expect("an empty space")
}

/// Runs a test that leaves nothing behind on every machine of so many pages, with all options.
pub(crate) fn everywhere(pages: u64, test: impl Fn(&Space<Sim>)) {
    for options in machines(pages) {
        for (space_options, slots) in all_options() {
            let _told = Told(|| format!("{options:?}, {space_options:?}, {slots}"));
            let space = space(options.clone(), space_options);
            set_block_slots(&space, slots);
            test(&space);
            finish(&space);
        }
    }
}

/// Everything was freed: after a purge the space is what it was, and the machine has everything
/// back.
pub(crate) fn finish<P: Simulated>(space: &Space<P>) {
    Sim::run_on(0);
    check_whole(space);
    assert_eq!(space.stats().tenant_areas, 0, "every block is given back");
}

/// Returns frames of the caller's, on machines with a linear map in an order in which they don't
/// follow each other.
pub(crate) fn take(space: &Space<Sim>, count: usize) -> Vec<Frame> {
    let mut frames = vec![Frame(0); count];
    space.platform().take_frames(&mut frames).expect("there are many");
    frames.sort_by_key(|frame| std::cmp::Reverse(frame.0));
    frames
}

/// Returns frames that follow each other.
pub(crate) fn take_run(space: &Space<Sim>, count: usize) -> Vec<Frame> {
    let first = space.platform().take_run(count as u64, 1).expect("there are many");
    (0..count as u64).map(|nth| first.plus(nth)).collect()
}

pub(crate) fn give(space: &Space<Sim>, frames: &[Frame]) {
    // SAFETY: the frames are the test's, and what led to them was ended.
    unsafe { space.platform().give_frames(frames) };
}

pub(crate) fn devices(count: u64) -> Vec<Frame> {
    (FRAMES..FRAMES + count).map(Frame).collect()
}

pub(crate) fn page(addr: usize) -> u64 {
    (addr / PAGE) as u64
}

/// Returns `count` pages from `addr` on.
pub(crate) fn pages(addr: usize, count: usize) -> PageRange {
    PageRange::from_len(page(addr), count as u64).expect("not empty")
}

pub(crate) fn cpus<P: Simulated>(space: &Space<P>) -> std::ops::Range<usize> {
    0..space.geometry().cpus
}

/// Writes to the `nth` page on the last CPU.
pub(crate) fn write(space: &Space<Sim>, addr: usize, nth: usize, word: u64) {
    let cpu = space.geometry().cpus - 1;
    space.platform().write(cpu, page(addr) + nth as u64, word).expect("it is mapped");
}

/// Every CPU reads `words` in the pages from `addr` on, and remembers them.
pub(crate) fn shows(space: &Space<Sim>, addr: usize, words: &[u64]) {
    for cpu in cpus(space) {
        for (page, word) in (page(addr)..).zip(words) {
            assert_eq!(space.platform().read(cpu, page), Ok(*word), "page {page:#x} on CPU {cpu}");
        }
    }
}

/// Writes words that are nowhere else to `count` pages from `addr` on, and has every CPU remember
/// them.
pub(crate) fn fill(space: &Space<Sim>, addr: usize, count: usize) -> Vec<u64> {
    let words: Vec<u64> = (page(addr)..).take(count).map(|page| page << 8 | 1).collect();
    words.iter().enumerate().for_each(|(nth, &word)| write(space, addr, nth, word));
    shows(space, addr, &words);
    words
}

/// Ends a mapping of the test's.
pub(crate) fn vunmap(space: &Space<Sim>, addr: usize) {
    // SAFETY: nothing uses it any more.
    unsafe { space.raw().unmap(addr) }.expect("it is mapped");
}

pub(crate) fn unmap_ram(space: &Space<Sim>, addr: usize, count: usize) {
    // SAFETY: nothing uses it any more.
    unsafe { short(space).unmap(addr, count) }.expect("it is mapped");
}

pub(crate) fn unreserve(space: &Space<Sim>, addr: usize) {
    // SAFETY: nothing uses it any more.
    unsafe { space.raw().unreserve(addr) }.expect("it is busy");
}

/// Returns the kind of the area at `addr`.
pub(crate) fn kind<P: Platform>(space: &Space<P>, addr: usize) -> Option<Kind> {
    space.find(addr).map(|area| area.kind)
}
