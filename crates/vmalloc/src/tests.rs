//! Repairs in the child of a fork, and settings of a platform, on one without memory.

use crate::{Contended, DrainReason, Fit, Geometry, PageRange, Platform, PlatformError, SpaceOptions};
use crate::{Protection, Request, Space, SpaceError};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use lock_api::{GuardSend, RawMutex};

/// A lock that panics instead of waiting.
pub(crate) struct Flag(AtomicBool);

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

/// A lock that panics when it is taken before it was made ready, or a second time.
struct Late(AtomicBool, Flag);

// SAFETY: as for `Flag`.
unsafe impl RawMutex for Late {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = Self(AtomicBool::new(false), Flag::INIT);
    type GuardMarker = GuardSend;

    fn lock(&self) {
        assert!(self.try_lock(), "one thread takes a lock twice");
    }
    fn try_lock(&self) -> bool {
        assert!(self.0.load(Ordering::Relaxed), "a lock is taken that was not made ready");
        self.1.try_lock()
    }
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.1.unlock() };
    }
}

/// A platform without memory, on which every call succeeds. Its pages have 2^12 bytes, whatever its
/// constant says. It counts the requests for a drain, and the locks for which there is memory.
struct Machine<const SHIFT: u32>(AtomicUsize, AtomicIsize);

impl<const SHIFT: u32> Default for Machine<SHIFT> {
    fn default() -> Self {
        Self(AtomicUsize::new(0), AtomicIsize::new(100))
    }
}

// SAFETY: nothing is ever reached through it.
unsafe impl<const SHIFT: u32> Platform for Machine<SHIFT> {
    type RawLock = Flag;
    type PurgeLock = Late;
    type Context = ();

    const PAGE_SHIFT: Option<u32> = Some(SHIFT);

    fn geometry(&self) -> Geometry {
        Geometry::new(PageRange::of(0x100, 0x200), 12, 1).maps_zeroed(false)
    }

    fn init_purge_lock(&self, lock: &Late) -> bool {
        assert!(!lock.0.swap(true, Ordering::Relaxed), "a lock is made ready twice");
        self.1.fetch_sub(1, Ordering::Relaxed) > 0
    }

    fn cpu(&self) -> usize {
        0
    }

    unsafe fn map(&self, _: PageRange, _: Protection, _: ()) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn unmap(&self, _: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn flush(&self, _: &[PageRange]) -> Result<(), PlatformError> {
        Ok(())
    }

    unsafe fn zero(&self, _: PageRange) {}

    fn drain_later(&self, _: DrainReason) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn entropy(&self) -> u64 {
        0
    }

    fn fatal(&self, damage: &dyn fmt::Display) -> ! {
        panic!("{damage}")
    }
}

// A dependency that turns the texts on would take the next test away. `cargo xtask ci` sets this.
const _: () = assert!(option_env!("VMALLOC_WITHOUT_TEXTS").is_none() || cfg!(not(feature = "error-texts")));

#[cfg(not(feature = "error-texts"))]
#[test]
fn an_error_without_its_text_tells_the_name_of_its_type() {
    use crate::{AllocError, AreaError, PlatformFault, Unbacked};
    use std::string::ToString;
    let space = Space::new(Machine::<12>::default(), SpaceOptions::default()).unwrap();
    let refused = |bytes| space.raw().alloc(&Request::new(bytes)).unwrap_err().to_string();
    assert_eq!([refused(0), refused(1 << 46)], ["RequestError", "AllocError"]);
    assert_eq!(AllocError::Metadata.to_string(), "AllocError");
    // SAFETY: no area is there.
    assert_eq!(unsafe { space.raw().free(5) }.unwrap_err().to_string(), "FreeError");
    assert_eq!(AreaError::ForeignFrames.to_string(), "AreaError");
    assert_eq!(SpaceError::Metadata.to_string(), "SpaceError");
    let cause = PlatformError { call: "map", fault: PlatformFault::OutOfMemory, code: 12 };
    assert_eq!(cause.to_string(), "PlatformError");
    let unbacked = Unbacked { size: 1, align: 1, within: PageRange::of(1, 2), largest: 1, cause };
    assert_eq!(AllocError::from(unbacked).to_string(), "Unbacked");
}

/// A fork leaves a thread behind that has taken an area out of use, and entered it in no list yet.
/// Other areas are in lists. The child finds the one.
#[test]
fn an_area_that_was_being_freed_is_found_in_the_child_of_a_fork() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = Space::new(Machine::<12>::default(), options).unwrap();
        let [freed, lost] = [1, 3].map(|pages| space.raw().alloc(&Request::new(pages << 12)).unwrap());
        // SAFETY: nothing uses the area any more.
        unsafe { space.raw().free(freed) }.unwrap();
        space.quiesce();
        let page = (lost >> 12) as u64;
        let leaf = space.areas.bitmaps.sure_home(page).unwrap();
        space.areas.bitmaps.retire(leaf, page).expect("retired, and never listed");
        // SAFETY: this is the only thread, and it has just called `quiesce`.
        unsafe { space.resume_in_child() };
        space.verify().unwrap();
        space.purge().unwrap();
        let stats = space.stats();
        assert_eq!((stats.lazy_areas, stats.largest_free_pages), (0, stats.span_pages));
    }
}

/// Areas that wait in the parent wait in the child of a fork as well. No drain knows of them there.
#[test]
fn the_child_of_a_fork_asks_for_a_drain_with_its_first_free() {
    for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
        let space = Space::new(Machine::<12>::default(), options).unwrap();
        let areas = [(); 3].map(|()| space.raw().alloc(&Request::new(1 << 12)).unwrap());
        let asked_after_free = |nth: usize| {
            // SAFETY: nothing uses the area any more.
            unsafe { space.raw().free(areas[nth]) }.unwrap();
            space.platform().0.load(Ordering::Relaxed)
        };
        assert_eq!([0, 1].map(asked_after_free), [1, 1], "once for all that waits");
        space.quiesce();
        // SAFETY: this is the only thread, and it has just called `quiesce`.
        unsafe { space.resume_in_child() };
        assert_eq!(asked_after_free(2), 2);
    }
}

/// Only a change keeps a look-up without locks from its answer, not a thread that reads the map.
#[test]
fn try_find_answers_beside_a_reader_of_the_map() {
    let space = Space::new(Machine::<12>::default(), SpaceOptions::default()).unwrap();
    let addr = space.raw().alloc(&Request::new(1 << 12)).unwrap();
    let find = || space.try_find(addr).map(|area| area.map(|area| area.addr));
    let mut held = space.areas.map();
    assert_eq!(find(), Ok(Some(addr)), "the map is held");
    let area = held.alloc(&Fit::new(1)).unwrap();
    held.free(area.start()).unwrap();
    assert_eq!(find(), Err(Contended), "it changes");
    drop(held);
    assert_eq!(find(), Ok(Some(addr)), "it does no more");
}

/// A wrong constant would take addresses for pages of another size.
#[test]
fn a_constant_that_contradicts_the_geometry_is_refused() {
    let refused = Space::new(Machine::<14>::default(), SpaceOptions::default()).err();
    assert_eq!(refused, Some(SpaceError::PageShift { page_shift: 12, constant: 14 }));
}

/// Each lock of purges is made ready before it is taken, those of groups as well; where that fails
/// there is no space.
#[test]
fn locks_that_are_made_at_run_time_are_ready_or_the_space_is_refused() {
    // A lock for all nodes, and one for each of three groups of eight.
    for (locks, is_made) in [(0, false), (3, false), (4, true)] {
        let machine = Machine::<12>(AtomicUsize::new(0), AtomicIsize::new(locks));
        match Space::new(machine, SpaceOptions::default().nodes(20)) {
            Ok(space) => {
                assert!(is_made, "{locks} locks");
                let addr = space.raw().alloc(&Request::new(1 << 12)).unwrap();
                // SAFETY: nothing uses the area any more.
                unsafe { space.raw().free(addr) }.unwrap();
                space.purge().unwrap();
                space.quiesce();
                // SAFETY: this is the only thread, and it has just called `quiesce`.
                unsafe { space.resume_in_child() };
            }
            Err(error) => assert_eq!((error, is_made), (SpaceError::Metadata, false), "{locks} locks"),
        }
    }
}
