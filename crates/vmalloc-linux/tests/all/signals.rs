//! Frees from signal handlers, which have interrupted anything.

use crate::common::process::Thread;
use crate::common::*;
use crate::drain::{drain_threads, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use vmalloc::{DrainReason, FreeError, Platform, Request, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, open};

/// Areas that handlers free in one process.
const COUNT: usize = 64;
/// Processes of a test. Without care most of them hang.
const ROUNDS: usize = 20;

static SPACE: AtomicPtr<Space<Linux>> = AtomicPtr::new(std::ptr::null_mut());
/// The address to be freed; 0 = none.
static AREAS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
static FREED: AtomicUsize = AtomicUsize::new(0);
static CHANGED_ERRNO: AtomicBool = AtomicBool::new(false);

/// Frees one area, and looks after `errno`.
extern "C" fn free_one(_: libc::c_int) {
    const MARK: libc::c_int = 12_345;
    // SAFETY: this thread's own.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = std::mem::replace(errno, MARK);
    if let Some(slot) = AREAS.iter().find(|slot| slot.load(Relaxed) != 0) {
        let addr = slot.swap(0, Relaxed);
        // SAFETY: the space outlives the signals; the area has no other owner.
        match unsafe { (*SPACE.load(Relaxed)).raw().free_atomic(addr) } {
            Ok(()) => drop(FREED.fetch_add(1, Relaxed)),
            Err(FreeError::Contended { .. }) => slot.store(addr, Relaxed),
            Err(_) => std::process::abort(),
        }
    }
    if *errno != MARK {
        CHANGED_ERRNO.store(true, Relaxed);
    }
    *errno = before;
}

/// Does `work` while another thread sends signals to this one, until their handler has freed all
/// areas.
fn interrupt(space: &Space<Linux>, areas: [usize; COUNT], mut work: impl FnMut(usize)) {
    SPACE.store(std::ptr::from_ref(space).cast_mut(), Relaxed);
    FREED.store(0, Relaxed);
    AREAS.iter().zip(areas).for_each(|(slot, addr)| slot.store(addr, Relaxed));
    process::handle(libc::SIGUSR1, free_one, libc::SA_RESTART);
    let this = Thread::current();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while FREED.load(Relaxed) < COUNT {
                this.interrupt();
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        (0..).take_while(|_| FREED.load(Relaxed) < COUNT).for_each(&mut work);
    });
    assert!(!CHANGED_ERRNO.load(Relaxed), "the interrupted program finds another errno");
}

/// Uses the heap of the C library, of which a thread in the background takes a part as well: it
/// locks.
fn use_malloc() -> impl FnMut(usize) {
    let mut held = Vec::with_capacity(COUNT + 1);
    move |round| {
        // SAFETY: any size.
        held.push(unsafe { libc::malloc(3000 + round % 7000) } as usize);
        if held.len() > COUNT {
            // SAFETY: from `malloc`, and forgotten.
            unsafe { libc::free(held.swap_remove(round * 7 % COUNT) as *mut _) };
        }
    }
}

fn new_areas(space: &Space<Linux>) -> [usize; COUNT] {
    std::array::from_fn(|index| space.raw().alloc(&Request::new((1 + index % 3) * page_bytes())).unwrap())
}

/// Handlers free all areas; the next call that may create a thread has them drained.
fn frees_are_drained(space: &Space<Linux>) {
    interrupt(space, new_areas(space), use_malloc());
    assert_eq!(drain_threads().len(), 0, "a handler has created a thread");
    assert_eq!(space.stats().lazy_areas, COUNT as u64);
    let next = space.raw().alloc(&Request::new(page_bytes()).tag("the long way")).unwrap();
    wait_until("what was freed is drained", || space.stats().lazy_areas == 0);
    assert_eq!(drain_threads().len(), 1);
    // Now there is a thread to be woken, and nothing else is called.
    interrupt(
        space,
        std::array::from_fn(|_| space.raw().alloc(&Request::new(page_bytes())).unwrap()),
        use_malloc(),
    );
    wait_until("what was freed is drained", || space.stats().lazy_areas == 0);
    // SAFETY: allocated above.
    unsafe { space.raw().free(next) }.unwrap();
    space.verify().unwrap();
}

fn new_space() -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(1 << 28), SpaceOptions::default()).unwrap()
}

#[test]
fn a_handler_that_interrupted_malloc_frees_and_what_it_freed_is_drained() {
    in_own_process(|| {
        for _ in 0..ROUNDS {
            in_forked_child(|| {
                frees_are_drained(&new_space());
                true
            });
        }
    });
}

#[test]
fn a_handler_frees_in_a_child_of_a_fork_that_left_the_drain_thread_behind() {
    in_own_process(|| {
        let space = new_space();
        assert!(space.platform().drain_later(DrainReason::Threshold));
        for _ in 0..ROUNDS {
            in_forked_child(|| {
                assert_eq!(drain_threads().len(), 0);
                frees_are_drained(&space);
                true
            });
        }
    });
}

#[test]
fn a_handler_that_interrupted_the_space_itself_frees_in_the_end() {
    in_own_process(|| {
        for options in
            [SpaceOptions::default(), SpaceOptions::default().unmap_on_free().lazy_max_pages(16).nodes(1)]
        {
            let space = open(LinuxOptions::new().max_bytes(1 << 28), options).unwrap();
            // Every second one takes locks, if they are free.
            let areas = std::array::from_fn(|index| {
                let request = Request::new((1 + index % 3) * page_bytes());
                space.raw().alloc(&if index % 2 == 0 { request } else { request.tag("noted") }).unwrap()
            });
            interrupt(&space, areas, |round| {
                let addr =
                    space.raw().alloc(&Request::new((1 + round % 5) * page_bytes()).tag("own")).unwrap();
                // SAFETY: just allocated.
                unsafe { space.raw().free(addr) }.unwrap();
                if round % 8 == 0 {
                    space.purge().unwrap();
                }
            });
            space.verify().unwrap();
            space.purge().unwrap();
            let stats = space.stats();
            assert_eq!((stats.busy_areas, stats.largest_free_pages), (0, stats.span_pages));
        }
    });
}
