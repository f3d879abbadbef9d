//! A platform with nothing behind it that insists on the contract and fails when told to.
//!
//! It keeps two sets of pages: those that are mapped, and those whose translations may linger
//! because they were unmapped and not flushed. Every call is checked against both; a caller that
//! breaks the contract meets a panic that names the rule.

mod frames;

pub use frames::FrameCounts;

use super::range_set::RangeSet;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc::{DrainReason, Frame, Geometry, PageRange, Platform, PlatformError, PlatformFault, Protection};

/// A platform call that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`Platform::map`].
    Map,
    /// [`Platform::unmap`]: half of the first range is unmapped then.
    Unmap,
    /// [`Platform::flush`].
    Flush,
}

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Flush => "flush",
        }
    }
}

/// A platform that only keeps account. See the module's documentation.
#[derive(Debug)]
pub struct NullPlatform {
    span: PageRange,
    cpus: usize,
    cpu: AtomicUsize,
    /// Drains asked for at once and by age, where they are promised.
    asked: Option<[AtomicUsize; 2]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mapped: RangeSet,
    /// Unmapped, not flushed.
    lingering: RangeSet,
    /// Mapped and written to since.
    soiled: RangeSet,
    /// The frames that `map_frames` put behind pages.
    frames: BTreeMap<u64, Frame>,
    next_frame: u64,
    counts: FrameCounts,
    /// Calls made, by kind.
    calls: [u64; 3],
    /// For each kind, which call is to fail.
    failing: [Option<u64>; 3],
    /// For each kind, whether every call fails.
    refusing: [bool; 3],
    failed: u64,
    entropy: u64,
}

impl NullPlatform {
    /// Pages of 4 KiB.
    pub const PAGE_SHIFT: u32 = 12;

    /// Returns a platform that lends `span` and pretends to have `cpus` CPUs.
    pub fn new(span: PageRange, cpus: usize) -> Self {
        Self { span, cpus, cpu: AtomicUsize::new(0), asked: None, state: Mutex::default() }
    }

    /// Promises every drain that it is asked for. Nothing keeps the promise but the test that calls
    /// `Space::drain`.
    #[must_use]
    pub fn promise_drains(mut self) -> Self {
        self.asked = Some(Default::default());
        self
    }

    /// Returns how many drains were asked for at once.
    pub fn drains_asked(&self) -> usize {
        self.asked(DrainReason::Threshold)
    }

    /// Returns how many drains were asked for by age.
    pub fn drains_by_age(&self) -> usize {
        self.asked(DrainReason::Age)
    }

    fn asked(&self, due: DrainReason) -> usize {
        // Relaxed: a count for tests, which read it on the thread that made it.
        self.asked
            .as_ref()
            .map_or(0, |asked| asked[usize::from(due == DrainReason::Age)].load(Ordering::Relaxed))
    }

    /// Makes the `nth` call of this kind from now on fail, once; 1 is the next.
    pub fn fail_nth(&self, call: Call, nth: u64) {
        let mut state = self.state.lock();
        state.failing[call as usize] = Some(state.calls[call as usize] + nth);
    }

    /// Makes every call of this kind fail from now on.
    pub fn fail_all(&self, call: Call) {
        self.state.lock().refusing[call as usize] = true;
    }

    /// Lets every call succeed again.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        (state.failing, state.refusing) = ([None; 3], [false; 3]);
    }

    /// Returns how many calls have failed on request.
    pub fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Returns how many calls of this kind were made.
    pub fn calls(&self, call: Call) -> u64 {
        self.state.lock().calls[call as usize]
    }

    /// Sets the CPU that calls from now on seem to come from.
    pub fn move_to(&self, cpu: usize) {
        // Relaxed: a hint that orders nothing.
        self.cpu.store(cpu % self.cpus, Ordering::Relaxed);
    }

    /// Returns whether every page of `range` is mapped.
    pub fn is_mapped(&self, range: PageRange) -> bool {
        self.state.lock().mapped.covers(range)
    }

    /// Returns whether some page of `range` is mapped.
    pub fn is_touched(&self, range: PageRange) -> bool {
        self.state.lock().mapped.first_meeting(range).is_some()
    }

    /// Notes a write to `range`.
    pub fn soil(&self, range: PageRange) {
        self.state.lock().soiled.insert(range);
    }

    /// Returns whether `range` reads as zero: nothing was written to it since it was mapped or
    /// zeroed.
    pub fn is_zero(&self, range: PageRange) -> bool {
        self.state.lock().soiled.first_meeting(range).is_none()
    }

    /// Returns how many pages are mapped.
    pub fn mapped_pages(&self) -> u64 {
        self.state.lock().mapped.pages()
    }

    /// Returns how many pages were unmapped and not flushed.
    pub fn lingering_pages(&self) -> u64 {
        self.state.lock().lingering.pages()
    }

    fn check_list(&self, call: Call, ranges: &[PageRange]) {
        for range in ranges {
            assert!(self.span.covers(range), "{}: {range:?} is outside {:?}", call.name(), self.span);
        }
        // Where something was refused, areas come one by one.
        let least = u64::from(self.failed() == 0);
        for pair in ranges.windows(2) {
            assert!(
                pair[0].end() + least <= pair[1].start(),
                "{}: {pair:?} is not ascending and coalesced",
                call.name()
            );
        }
    }
}

impl State {
    /// Counts a call; an error when it was to fail.
    fn enter(&mut self, call: Call) -> Result<(), PlatformError> {
        self.calls[call as usize] += 1;
        let fails = self.failing[call as usize] == Some(self.calls[call as usize]);
        if !fails && !self.refusing[call as usize] {
            return Ok(());
        }
        self.failing[call as usize] = None;
        self.failed += 1;
        Err(PlatformError { call: call.name(), fault: PlatformFault::OutOfMemory, code: 12 })
    }

    fn unmap(&mut self, range: PageRange) {
        self.mapped.remove(range);
        self.lingering.insert(range);
        let gone: Vec<u64> = self.frames.range(range.start()..range.end()).map(|(&page, _)| page).collect();
        gone.iter().for_each(|page| _ = self.frames.remove(page));
    }
}

// SAFETY: the span is constant. Nothing is ever reachable through it, mapped or not, and this type
// is no `DirectMemory`, so no caller is led to touch an address. The lock is parking_lot's.
#[allow(unsafe_code)]
unsafe impl Platform for NullPlatform {
    type RawLock = parking_lot::RawMutex;
    type PurgeLock = parking_lot::RawMutex;

    fn geometry(&self) -> Geometry {
        Geometry::new(self.span, Self::PAGE_SHIFT, self.cpus)
    }

    fn cpu(&self) -> usize {
        // Relaxed: see `move_to`.
        self.cpu.load(Ordering::Relaxed)
    }

    unsafe fn map(&self, range: PageRange, _: Protection) -> Result<(), PlatformError> {
        self.check_list(Call::Map, &[range]);
        let mut state = self.state.lock();
        let (mapped, lingering) = (state.mapped.first_meeting(range), state.lingering.first_meeting(range));
        assert_eq!(mapped, None, "map: {range:?} is mapped already");
        assert_eq!(lingering, None, "map: {range:?} is reused before it was flushed");
        state.enter(Call::Map)?;
        state.mapped.insert(range);
        state.soiled.remove(range);
        Ok(())
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.check_list(Call::Unmap, ranges);
        let mut state = self.state.lock();
        if let Err(error) = state.enter(Call::Unmap) {
            let half = ranges.first().and_then(|first| PageRange::from_len(first.start(), first.len() / 2));
            half.into_iter().for_each(|half| state.unmap(half));
            return Err(error);
        }
        ranges.iter().for_each(|&range| state.unmap(range));
        Ok(())
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        self.check_list(Call::Flush, ranges);
        let mut state = self.state.lock();
        for &range in ranges {
            assert!(state.lingering.covers(range), "flush: {range:?} was not unmapped");
        }
        state.enter(Call::Flush)?;
        ranges.iter().for_each(|&range| state.lingering.remove(range));
        Ok(())
    }

    unsafe fn zero(&self, range: PageRange) {
        let mut state = self.state.lock();
        assert!(state.mapped.covers(range), "zero: {range:?} is not all mapped");
        state.soiled.remove(range);
    }

    fn drain_later(&self, due: DrainReason) -> bool {
        if let Some(asked) = &self.asked {
            asked[usize::from(due == DrainReason::Age)].fetch_add(1, Ordering::Relaxed);
        }
        self.asked.is_some()
    }

    fn entropy(&self) -> u64 {
        let mut state = self.state.lock();
        let mut source = crate::source::Seeded::new(state.entropy);
        state.entropy = source.next_u64();
        state.entropy
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("fatal: {damage}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn range(start: u64, end: u64) -> PageRange {
        PageRange::new(start, end).unwrap()
    }

    #[allow(unsafe_code)]
    fn make(platform: &NullPlatform, call: Call, ranges: &[PageRange]) -> Result<(), PlatformError> {
        // SAFETY: nothing stands behind this platform's addresses, so no call can take memory from
        // anyone.
        unsafe {
            match call {
                Call::Map => platform.map(ranges[0], Protection::ReadWrite),
                Call::Unmap => platform.unmap(ranges),
                Call::Flush => platform.flush(ranges),
            }
        }
    }

    fn breaks(call: impl FnOnce() -> Result<(), PlatformError>) -> bool {
        catch_unwind(AssertUnwindSafe(call)).is_err()
    }

    #[test]
    fn a_broken_contract_is_noticed() {
        let platform = NullPlatform::new(range(100, 200), 2);
        let map = |range| make(&platform, Call::Map, &[range]);
        map(range(110, 120)).unwrap();
        assert!(breaks(|| map(range(119, 121))), "mapped twice");
        assert!(breaks(|| map(range(190, 201))), "outside");
        assert!(
            breaks(|| make(&platform, Call::Unmap, &[range(120, 130), range(110, 115)])),
            "not ascending"
        );
        assert!(
            breaks(|| make(&platform, Call::Unmap, &[range(110, 115), range(115, 120)])),
            "not coalesced"
        );
        assert!(
            breaks(|| make(&platform, Call::Flush, &[range(110, 120)])),
            "flushed before it was unmapped"
        );
        make(&platform, Call::Unmap, &[range(110, 125)]).unwrap();
        assert!(breaks(|| map(range(110, 111))), "reused before the flush");
        make(&platform, Call::Flush, &[range(110, 125)]).unwrap();
        map(range(110, 111)).unwrap();
    }

    #[test]
    fn the_nth_call_fails_once() {
        let platform = NullPlatform::new(range(100, 200), 1);
        platform.fail_nth(Call::Map, 2);
        let map = |page| make(&platform, Call::Map, &[range(page, page + 1)]).is_ok();
        assert_eq!([map(100), map(101), map(102)], [true, false, true]);
        assert_eq!((platform.failed(), platform.mapped_pages()), (1, 2));
    }
}
