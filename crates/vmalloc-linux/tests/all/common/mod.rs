//! What all tests of the platform use: touching memory without dying of it, and the strategies to
//! run with.
#![allow(dead_code, unreachable_pub)]

pub mod crowd;
pub mod process;
pub mod sandbox;
pub mod trapping;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{
    Frame, FrameSupply, Geometry, MapFrames, PageRange, Platform, PlatformError, Protect, Protection,
    PurgeError, Request, Space, Stats,
};
pub use vmalloc_harness::{in_forked_child, in_own_process, not_run};
pub use vmalloc_linux::page_bytes;
use vmalloc_linux::{Error, GuardMeans, Linux, LinuxOptions, ReserveError, SpaceOptions, open};

/// Returns what the platform refused to a purge.
pub fn cause(error: PurgeError) -> PlatformError {
    match error {
        PurgeError::Platform(error) => error,
        error => panic!("{error}"),
    }
}

/// The platform's calls, for tests: each owns the pages it names, and nothing uses their memory
/// after an unmap.
pub trait Calls {
    fn do_map(&self, range: PageRange) -> Result<(), PlatformError>;
    fn do_unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;
    fn do_flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError>;
}

impl Calls for Linux {
    fn do_map(&self, range: PageRange) -> Result<(), PlatformError> {
        // SAFETY: see the trait.
        unsafe { self.map(range, Protection::ReadWrite, ()) }
    }

    fn do_unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: see the trait.
        unsafe { self.unmap(ranges) }
    }

    fn do_flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: see the trait; the tests flush what they unmapped.
        unsafe { self.flush(ranges) }
    }
}

/// The kernel's answer to a purge of many ranges by one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batches {
    Taken,
    Refused,
}

impl Batches {
    pub const ALL: [Self; 2] = [Self::Taken, Self::Refused];

    /// Runs `open`, which finds out. Where batches are refused, on a thread that may not make the
    /// call: the platform that is opened makes none for ever.
    pub fn opening<T: Send>(self, open: impl FnOnce() -> T + Send) -> T {
        if self == Self::Taken {
            return open();
        }
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                sandbox::take_away(libc::SYS_process_madvise);
                open()
            });
            opening.join().expect("it has opened")
        })
    }

    /// Returns whether `linux` is as it should be. It is not where the kernel refuses batches
    /// itself.
    #[track_caller]
    pub fn are_those_of(self, linux: &Linux) -> bool {
        let takes = linux.purges_in_batches();
        assert!(!takes || self == Self::Taken);
        if !takes && self == Self::Taken {
            not_run("purges in batches", "the kernel lacks process_madvise(PIDFD_SELF)");
        }
        takes == (self == Self::Taken)
    }
}

/// A platform with these means; `None` where the kernel lacks them.
pub fn reserve(bytes: usize, guards: GuardMeans, batches: Batches) -> Option<Linux> {
    let options = LinuxOptions::new().max_bytes(bytes).guard_means(guards);
    match batches.opening(|| Linux::reserve(options, &SpaceOptions::default())) {
        Ok(linux) => {
            assert_eq!((linux.guard_means(), linux.reserved_bytes()), (guards, bytes));
            batches.are_those_of(&linux).then_some(linux)
        }
        Err(error) => lacks(&error),
    }
}

/// A platform with these options.
pub fn reserved(options: LinuxOptions) -> Linux {
    Linux::reserve(options, &SpaceOptions::default()).unwrap()
}

/// The space that was opened; `None` where the kernel lacks its means.
pub fn opened(result: Result<Arc<Space<Linux>>, Error>) -> Option<Arc<Space<Linux>>> {
    match result {
        Ok(space) => Some(space),
        Err(Error::Reserve(error)) => lacks(&error),
        Err(error) => panic!("{error}"),
    }
}

/// Returns a space with each kind of guards that the kernel has.
pub fn spaces(
    options: LinuxOptions,
    space_options: SpaceOptions,
) -> impl Iterator<Item = Arc<Space<Linux>>> + Clone {
    GuardMeans::all().filter_map(move |guards| {
        let space = opened(open(options.guard_means(guards), space_options))?;
        eprintln!("with {guards:?}, {:?} bytes cached", space_options.cache_bytes);
        Some(space)
    })
}

/// Notes the means that the kernel lacks; any other error is a failure.
#[track_caller]
pub fn lacks<T>(error: &ReserveError) -> Option<T> {
    let ReserveError::Unsupported { means, .. } = error else { panic!("{error}") };
    not_run(means, error);
    None
}

/// The kinds of guards with which every area may take mappings and be moved with them. Others are
/// in `traps.rs`.
pub fn guards_by_mapping() -> impl Iterator<Item = GuardMeans> {
    GuardMeans::all().filter(|guards| *guards != GuardMeans::Userfault)
}

/// Runs the scenario once for each strategy that the kernel has.
pub fn for_each_strategy(bytes: usize, scenario: impl Fn(&Linux)) {
    for guards in GuardMeans::all() {
        for batches in Batches::ALL {
            if let Some(linux) = reserve(bytes, guards, batches) {
                eprintln!("with {guards:?}, batches {batches:?}");
                scenario(&linux);
            }
        }
    }
}

/// `len` pages, `offset` pages into the span.
pub fn pages(linux: &Linux, offset: u64, len: u64) -> PageRange {
    PageRange::from_len(linux.geometry().span.start() + offset, len).unwrap()
}

pub fn map(linux: &Linux, range: PageRange) {
    linux.do_map(range).unwrap();
}

pub fn page_ptr(linux: &Linux, page: u64) -> *mut u8 {
    byte((page << linux.geometry().page_shift) as usize)
}

pub fn byte(addr: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(addr)
}

/// The byte at `addr`, which is mapped; read by this thread itself.
pub fn get(addr: usize) -> u8 {
    // SAFETY: the tests have mapped the page.
    unsafe { byte(addr).read_volatile() }
}

pub fn set(addr: usize, value: u8) {
    // SAFETY: the tests have mapped the page, and may write to it.
    unsafe { byte(addr).write_volatile(value) }
}

/// Writes to the first and the last word of each of so many pages: each word tells where it is.
pub fn fill_words(addr: usize, pages: usize) {
    for word in words(addr, pages) {
        // SAFETY: the tests have memory there.
        unsafe { byte(word).cast::<usize>().write_volatile(!word) };
    }
}

/// Asserts that so many pages hold what was written to them, there or elsewhere.
#[track_caller]
pub fn assert_words(addr: usize, pages: usize) {
    assert_words_of(addr, pages, !get_word(addr));
}

/// Asserts that so many pages hold what was written at `old`.
#[track_caller]
pub fn assert_words_of(addr: usize, pages: usize, old: usize) {
    for word in words(addr, pages) {
        assert_eq!(get_word(word), !(word - addr + old), "{word:#x} of {addr:#x}");
    }
}

fn words(addr: usize, pages: usize) -> impl Iterator<Item = usize> {
    (0..pages).flat_map(move |page| {
        [addr + page * page_bytes(), addr + (page + 1) * page_bytes() - size_of::<usize>()]
    })
}

fn get_word(addr: usize) -> usize {
    // SAFETY: as above.
    unsafe { byte(addr).cast::<usize>().read_volatile() }
}

/// Returns true if touching the byte at `addr` traps.
pub fn is_trap(addr: usize) -> bool {
    vmalloc_harness::peek(addr).is_none()
}

/// Writes `value` to the first byte of each page of a mapped range.
pub fn fill(linux: &Linux, range: PageRange, value: u8) {
    for page in range.start()..range.end() {
        // SAFETY: the test has mapped the page.
        unsafe { page_ptr(linux, page).write_volatile(value) };
    }
}

/// The first byte of `page`; `None` when touching it traps.
pub fn peek(linux: &Linux, page: u64) -> Option<u8> {
    vmalloc_harness::peek(page_ptr(linux, page).addr())
}

/// Asserts that every page of `range` reads as `value`.
#[track_caller]
pub fn assert_reads(linux: &Linux, range: PageRange, value: u8) {
    for page in range.start()..range.end() {
        assert_eq!(peek(linux, page), Some(value), "page {page:#x} of {range:?}");
    }
}

/// Asserts that touching any page of `range` traps.
#[track_caller]
pub fn assert_traps(linux: &Linux, range: PageRange) {
    for page in range.start()..range.end() {
        assert_eq!(peek(linux, page), None, "page {page:#x} of {range:?}");
    }
}

/// Allocates so many pages.
pub fn alloc(space: &Space<Linux>, pages: usize) -> usize {
    space.raw().alloc(&Request::new(pages * page_bytes())).unwrap()
}

pub fn free(space: &Space<Linux>, addr: usize) {
    // SAFETY: the tests free what is theirs, once, and use it no more but to see that it traps.
    unsafe { space.raw().free(addr) }.unwrap();
}

/// Everything freed and purged: the space is what it was at the start.
#[track_caller]
pub fn assert_whole(space: &Space<Linux>) {
    space.verify().unwrap();
    space.purge().unwrap();
    space.verify().unwrap();
    let Stats { span_pages, free_pages, largest_free_pages, busy_areas, lazy_areas, cached_areas, .. } =
        space.stats();
    assert_eq!((free_pages, largest_free_pages), (span_pages, span_pages));
    assert_eq!((busy_areas, lazy_areas, cached_areas), (0, 0, 0));
}

/// The page faults of this process so far.
pub fn page_faults() -> usize {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: room for the answer, which is written where the call succeeds.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    usage.ru_minflt as usize
}

/// The addresses at the begin of a line of `/proc/self/maps` or `smaps`.
pub fn range_of(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// How many mappings the span consists of.
pub fn mappings(linux: &Linux) -> usize {
    let Geometry { span, page_shift, .. } = linux.geometry();
    let (start, end) = ((span.start() << page_shift) as usize, (span.end() << page_shift) as usize);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter_map(range_of).filter(|range| range.start < end && start < range.end).count()
}

/// All mappings of this process, each with its lines in `/proc/self/smaps`.
pub fn smaps() -> Vec<(Range<usize>, Vec<String>)> {
    let mut all: Vec<(_, Vec<_>)> = Vec::new();
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        all.extend(range_of(line).map(|range| (range, Vec::new())));
        all.last_mut().unwrap().1.push(line.to_owned());
    }
    all
}

/// The lines in `/proc/self/smaps` of the mapping at `addr`.
pub fn smaps_at(addr: usize) -> Vec<String> {
    smaps().into_iter().find(|(range, _)| range.contains(&addr)).expect("it is mapped").1
}

/// Returns the text of a mapping's line of that name.
pub fn told<'a>(lines: &'a [String], name: &str) -> &'a str {
    lines.iter().find_map(|line| line.strip_prefix(name)).expect("every mapping has one").trim()
}

/// Returns the bytes that a mapping's line of that name tells.
pub fn told_bytes(lines: &[String], name: &str) -> usize {
    told(lines, name).trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Returns true if a mapping is in core dumps.
pub fn is_dumped(lines: &[String]) -> bool {
    !told(lines, "VmFlags:").split(' ').any(|flag| flag == "dd")
}

/// A line of `/proc/self/status`, in bytes.
pub fn status_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|char: char| !char.is_ascii_digit()).parse::<usize>().unwrap() << 10
}

/// Forks so many times, while each of `others` is repeated by a thread of its own. Each child must
/// do `child`.
pub fn forks_amid(forks: usize, others: &[&(dyn Fn() + Sync)], child: impl Fn() -> bool) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        for body in others {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    body();
                }
            });
        }
        (0..forks).for_each(|_| in_forked_child(&child));
    });
}

/// Stops other threads however a test ends, so that it ends.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn take(linux: &Linux, count: usize) -> Vec<Frame> {
    let mut frames = vec![Frame(u64::MAX); count];
    linux.take_frames(&mut frames).unwrap();
    frames
}

pub fn give(linux: &Linux, frames: &[Frame]) {
    // SAFETY: the tests give back what they took and no longer use.
    unsafe { linux.give_frames(frames) }
}

/// `count` frames of the supply, scattered: no two are neighbours.
pub fn scattered_frames(linux: &Linux, count: usize) -> Vec<Frame> {
    let mut frames = take(linux, 2 * count);
    frames.sort_unstable();
    let (kept, others): (Vec<_>, Vec<_>) = frames.chunks_exact(2).map(|two| (two[1], two[0])).unzip();
    give(linux, &others);
    kept.into_iter().rev().collect()
}

pub fn map_frames(linux: &Linux, range: PageRange, frames: &[Frame]) {
    // SAFETY: the tests own the range, and took the frames.
    unsafe { linux.map_frames(range, frames, Protection::ReadWrite) }.unwrap();
}

/// The address of `frame` in the linear map.
pub fn linear_addr(linux: &Linux, frame: Frame) -> usize {
    page_ptr(linux, linux.geometry().linear_map.unwrap().start() + frame.0).addr()
}

pub fn set_frame(linux: &Linux, frame: Frame, value: u8) {
    set(linear_addr(linux, frame), value);
}

pub fn frame_value(linux: &Linux, frame: Frame) -> u8 {
    get(linear_addr(linux, frame))
}

pub fn protect(linux: &Linux, range: PageRange, protection: Protection) {
    // SAFETY: the tests own their ranges.
    unsafe { linux.protect(range, protection) }.unwrap();
}

/// Returns true if `page` can be written: the kernel writes for us, and fails where we would.
pub fn can_write(linux: &Linux, page: u64) -> bool {
    let zero = std::fs::File::open("/dev/zero").unwrap();
    // SAFETY: the kernel checks the address; one byte of a page that the test owns is written at
    // most.
    let read = unsafe {
        libc::read(std::os::fd::AsRawFd::as_raw_fd(&zero), page_ptr(linux, page).wrapping_add(9).cast(), 1)
    };
    read == 1
}
