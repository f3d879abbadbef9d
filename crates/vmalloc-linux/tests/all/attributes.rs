//! What a program changes about its pages by system calls of its own, and what becomes of it.

use crate::common::*;
use vmalloc::{Request, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions};

fn bytes() -> usize {
    16 * page_bytes()
}

fn all_spaces() -> Vec<std::sync::Arc<Space<Linux>>> {
    // One node: wherever the thread runs, its areas have the same chunk.
    let space_options = SpaceOptions::default().nodes(1);
    let options = LinuxOptions::new().max_bytes(64 << 20).drain_thread(false);
    let with = |space_options| spaces(options, space_options);
    let both = || with(space_options).chain(with(space_options.unmap_on_free())).collect();
    Batches::Refused.opening(both)
}

/// Makes the memory at `addr` hard to use for its next owner.
fn alter(addr: usize) {
    let memory = byte(addr).cast();
    // SAFETY: the area is the test's; the calls change what the kernel does with its pages.
    unsafe {
        assert_eq!(libc::madvise(memory, bytes(), libc::MADV_DONTFORK), 0);
        assert_eq!(libc::mlock(memory, page_bytes()), 0);
        assert_eq!(libc::mprotect(memory, bytes(), libc::PROT_READ), 0);
    }
}

#[test]
fn a_free_of_altered_memory_drops_what_was_changed() {
    for space in all_spaces() {
        let addr = space.raw().alloc(&Request::new(bytes())).expect("room");
        alter(addr);
        assert!(told(&smaps_at(addr), "VmFlags:").contains(" dc"), "{}", told(&smaps_at(addr), "VmFlags:"));
        // SAFETY: nothing uses the area any more.
        unsafe { space.raw().free_altered(addr) }.expect("it was allocated");
        space.purge().expect("the kernel agrees");
        assert_eq!(space.raw().alloc(&Request::new(bytes())), Ok(addr), "the lowest place");
        let lines = smaps_at(addr);
        let flags = told(&lines, "VmFlags:");
        assert!(!flags.contains(" dc") && !flags.contains(" lo"), "{flags}");
        let memory = byte(addr);
        // SAFETY: the area is the test's.
        unsafe {
            assert_eq!(memory.read(), 0, "the old pages are gone");
            memory.write_bytes(7, bytes());
            space.raw().free(addr).expect("it was allocated");
        }
        space.purge().expect("the kernel agrees");
        space.verify().expect("every invariant holds");
        assert_eq!(space.stats().free_pages, space.stats().span_pages);
    }
}
