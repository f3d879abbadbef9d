//! A global allocator on an opened space, drained by the thread of that space.
//!
//! What such an allocator has to see to: the space takes its own lists from the global allocator,
//! so calls that come from inside the space, or from its drain thread, are served by something
//! else.

use crate::common::*;
use crate::heap::allocations;
use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use vmalloc::{DrainReason, Platform, Request, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, on_drain_thread, open};

/// From here on memory comes from the space.
const LARGE: usize = 16 << 10;

static SPACE: OnceLock<Arc<Space<Linux>>> = OnceLock::new();
static FROM_SPACE: AtomicU64 = AtomicU64::new(0);

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

/// Runs `body`, whose own allocations are left to the system.
fn inside<T>(body: impl FnOnce() -> T) -> T {
    let outer = INSIDE.replace(true);
    let result = body();
    INSIDE.set(outer);
    result
}

/// The space, if it may serve this.
fn space_for(layout: Layout) -> Option<&'static Space<Linux>> {
    let may = layout.size() >= LARGE && !INSIDE.get() && !on_drain_thread();
    SPACE.get().map(Arc::as_ref).filter(|_| may)
}

/// Allocates memory of the space, if that serves this.
pub(crate) fn alloc(layout: Layout) -> Option<*mut u8> {
    let space = space_for(layout)?;
    FROM_SPACE.fetch_add(1, Ordering::Relaxed);
    let request = Request::new(layout.size()).align(layout.align());
    let allocated = inside(|| space.raw().alloc(&request));
    Some(allocated.map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut))
}

/// Frees memory of the space. Returns false where it is not of the space.
///
/// # Safety
/// The caller gives the memory up.
pub(crate) unsafe fn free(ptr: *mut u8) -> bool {
    let Some(space) = SPACE.get().filter(|space| space.contains(ptr.addr())) else { return false };
    // SAFETY: the caller's promise.
    inside(|| unsafe { space.raw().free(ptr.addr()) }).unwrap();
    true
}

fn use_the_heap(thread: usize) {
    let mut held = Vec::new();
    for round in 0..2000 {
        let mut buffer = vec![thread as u8; LARGE + (round * 7919) % 200_000];
        buffer[round] = thread as u8;
        held.push(buffer);
        if held.len() > 20 {
            let old = held.swap_remove(round % 20);
            assert!(old.iter().all(|&byte| byte == thread as u8), "another thread wrote here");
        }
    }
}

#[test]
fn a_global_allocator_may_stand_on_a_space_with_a_drain_thread() {
    in_own_process(|| {
        let options = SpaceOptions::default().cache_bytes(1 << 20).lazy_max_pages(64);
        let space = SPACE.get_or_init(|| open(LinuxOptions::new(), options).unwrap());
        // Creating the thread, and asking it, leaves the program's heap alone.
        let before = allocations();
        let asked = [(); 3].map(|()| space.platform().drain_later(DrainReason::Threshold));
        assert_eq!((asked, allocations() - before), ([true; 3], 0));

        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || use_the_heap(thread));
            }
            for _ in 0..10 {
                in_forked_child(|| {
                    use_the_heap(9);
                    space.verify().is_ok()
                });
            }
        });
        assert!(FROM_SPACE.load(Ordering::Relaxed) >= 6000);
        space.verify().unwrap();
        // Areas freed since the last drain are below the threshold: one request, and all go by age.
        assert!(space.platform().drain_later(DrainReason::Threshold));
        while space.stats().lazy_areas + space.stats().cached_areas > 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
}
