//! Calls that a sub-space passes on, and pages that it counts, on a platform that records its
//! calls.

use lock_api::{GuardSend, RawMutex};
use std::fmt;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{
    DirectMemory, Frame, FrameSupply, Geometry, MapFrames, Origin, PageRange, Platform, PlatformError,
    PlatformFault, Protection, Relocate, Request,
};
use vmalloc_subspaces::{LIMIT_BYTES, Root, SubspaceError, SubspaceOptions};

/// A lock that panics instead of waiting.
struct Flag(AtomicBool);

// SAFETY: the thread that sets the flag holds the lock until it clears it.
unsafe impl RawMutex for Flag {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "one thread takes a lock twice");
    }
    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Records calls, and lets them fail on request.
#[derive(Default)]
struct Machine {
    calls: StdMutex<Vec<(&'static str, PageRange, Protection)>>,
    fails: AtomicBool,
    maps_zeros: bool,
}

const SPAN: (u64, u64) = (0x100, 0x200);

fn range(start: u64, end: u64) -> PageRange {
    PageRange::new(start, end).unwrap()
}

impl Machine {
    fn call(
        &self,
        name: &'static str,
        range: PageRange,
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.calls.lock().unwrap().push((name, range, protection));
        let failed = PlatformError { call: name, fault: PlatformFault::Other, code: 5 };
        if self.fails.load(Ordering::Relaxed) { Err(failed) } else { Ok(()) }
    }

    fn taken(&self) -> Vec<(&'static str, PageRange, Protection)> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

const DEFAULT: Protection = Protection::ReadWrite;

// SAFETY: nothing is ever reached through it.
unsafe impl Platform for Machine {
    type RawLock = Flag;
    type PurgeLock = Flag;

    fn geometry(&self) -> Geometry {
        Geometry::new(range(SPAN.0, SPAN.1), 12, 1).maps_zeroed(self.maps_zeros).remaps_atomically(true)
    }

    fn cpu(&self) -> usize {
        0
    }

    unsafe fn map(&self, range: PageRange, protection: Protection) -> Result<(), PlatformError> {
        self.call("map", range, protection)
    }

    unsafe fn unmap(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().try_for_each(|range| self.call("unmap", *range, DEFAULT))
    }

    unsafe fn flush(&self, ranges: &[PageRange]) -> Result<(), PlatformError> {
        ranges.iter().try_for_each(|range| self.call("flush", *range, DEFAULT))
    }

    unsafe fn zero(&self, _: PageRange) {}

    fn entropy(&self) -> u64 {
        0
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

// SAFETY: the tests look at no memory.
unsafe impl DirectMemory for Machine {}

// SAFETY: see `relocate`; what it moves shows what it held.
unsafe impl Relocate for Machine {
    unsafe fn relocate(&self, from: PageRange, _: PageRange) -> Result<(), PlatformError> {
        self.call("relocate", from, DEFAULT)
    }
}

// SAFETY: the tests use no frames.
unsafe impl FrameSupply for Machine {
    fn take_frames(&self, _: &mut [Frame]) -> Result<(), PlatformError> {
        Ok(())
    }

    fn take_run(&self, _: u64, _: u64) -> Result<Frame, PlatformError> {
        Ok(Frame(0))
    }

    unsafe fn give_frames(&self, _: &[Frame]) {}

    fn origin(&self, _: Frame) -> Origin {
        Origin::Supply
    }
}

// SAFETY: see `FrameSupply`.
unsafe impl MapFrames for Machine {
    unsafe fn map_frames(
        &self,
        range: PageRange,
        _: &[Frame],
        protection: Protection,
    ) -> Result<(), PlatformError> {
        self.call("map_frames", range, protection)
    }

    fn frame_at(&self, _: u64) -> Option<Frame> {
        None
    }
}

fn used(root: &Root<Machine>) -> usize {
    root.subspaces().map(|part| part.used_bytes >> 12).sum()
}

#[test]
fn pages_are_counted_from_map_to_flush() {
    let root = Root::new(Machine::default()).unwrap();
    let child = root
        .divide("child", &Request::new(0x180_000 - 0x120_000).within(0x120_000, 0x180_000), Some(20 << 12))
        .unwrap();
    // SAFETY: no memory is behind any of it.
    unsafe {
        child.map(range(0x120, 0x130), DEFAULT).unwrap();
        assert_eq!(used(&root), 16);
        let refused = child.map(range(0x140, 0x145), DEFAULT).unwrap_err();
        assert_eq!((refused.call, refused.fault), (LIMIT_BYTES, PlatformFault::OutOfMemory));
        child.unmap(&[range(0x124, 0x128)]).unwrap();
        assert_eq!(used(&root), 16, "unmapped is not flushed");
        child.flush(&[range(0x124, 0x128)]).unwrap();
        child.flush(&[range(0x124, 0x128), range(0x130, 0x160)]).unwrap();
        assert_eq!(used(&root), 12, "a part, and never twice");
        child.map(range(0x140, 0x145), DEFAULT).unwrap();
        assert_eq!(used(&root), 17);
    }
    root.platform().taken();
    drop(child);
    let left = range(0x120, 0x145);
    assert_eq!(root.platform().taken(), [("unmap", left, DEFAULT), ("flush", left, DEFAULT)]);
    assert_eq!(root.subspaces().next(), None);
}

#[test]
fn a_child_is_as_the_machine_below() {
    let root = Root::new(Machine::default()).unwrap();
    let child = root.divide("child", &Request::new(64 << 12), None).unwrap();
    let machine = root.platform();
    assert_eq!(
        (child.geometry().maps_zeroed, child.geometry().remaps_atomically),
        (machine.geometry().maps_zeroed, machine.geometry().remaps_atomically)
    );
    assert_eq!(
        (child.geometry().page_shift, child.geometry().cpus),
        (machine.geometry().page_shift, machine.geometry().cpus)
    );
}

#[test]
fn what_fails_below_is_not_counted() {
    let root = Root::new(Machine::default()).unwrap();
    let child = root.divide("child", &Request::new(64 << 12), Some(20 << 12)).unwrap();
    let fail = |fails| root.platform().fails.store(fails, Ordering::Relaxed);
    // SAFETY: no memory is behind any of it.
    unsafe {
        fail(true);
        assert_eq!(child.map(range(0x100, 0x110), DEFAULT).unwrap_err().code, 5);
        assert_eq!(child.map_huge(range(0x100, 0x110), DEFAULT).unwrap_err().code, 5);
        assert_eq!(used(&root), 0);
        fail(false);
        child.map_frames(range(0x100, 0x104), &[Frame(0); 4], Protection::Read).unwrap();
        fail(true);
        assert!(child.map_frames(range(0x100, 0x104), &[Frame(1); 4], DEFAULT).is_err());
        assert!(child.flush(&[range(0x100, 0x104)]).is_err());
        assert_eq!(used(&root), 4, "the old frames are still there");
        fail(false);
        // Frames are replaced: only what is new counts.
        child.map_frames(range(0x100, 0x114), &[Frame(2); 20], DEFAULT).unwrap();
        assert_eq!(used(&root), 20);
        child.flush(&[range(0x100, 0x114)]).unwrap();
        assert_eq!(used(&root), 0);
    }
}

#[test]
fn memory_that_moves_needs_no_room_below_the_limit() {
    let root = Root::new(Machine::default()).unwrap();
    let child = root.divide("child", &Request::new(64 << 12), Some(10 << 12)).unwrap();
    let (from, to) = (range(0x100, 0x10a), range(0x110, 0x11a));
    // SAFETY: no memory is behind any of it.
    unsafe {
        child.map(from, DEFAULT).unwrap();
        child.relocate(from, to).unwrap();
        assert_eq!(used(&root), 20, "the old place has to be flushed");
        child.flush(&[from]).unwrap();
        assert_eq!(used(&root), 10);
    }
}

#[test]
fn a_protected_child_maps_with_its_own_protection() {
    let options = SubspaceOptions::default();
    let root = Root::new(Machine::default()).unwrap();
    let child = root.protected_subspace("text", &Request::new(64 << 12), Protection::ReadExecute, options);
    assert!(matches!(child.err(), Some(SubspaceError::NotZeroed)));
    assert_eq!((root.subspaces().count(), root.platform().taken()), (0, vec![]));
    let root = Root::new(Machine { maps_zeros: true, ..Machine::default() }).unwrap();
    let child =
        root.protected_subspace("text", &Request::new(64 << 12), Protection::ReadExecute, options).unwrap();
    child.raw().alloc(&Request::new(4096)).unwrap();
    assert_eq!(root.platform().taken(), [("map", range(0x100, 0x101), Protection::ReadExecute)]);
}
