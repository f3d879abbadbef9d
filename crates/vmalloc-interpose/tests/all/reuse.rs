//! A kept area is reused only as it was on the first day: nothing of the mapping before outlasts
//! its end.

use crate::common::{again, reservation};
use std::ptr;
use vmalloc_harness::not_run;

const BYTES: usize = 128 << 10;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const KEEP: [&[(&str, &str)]; 2] =
    [&[("VMALLOC_MMAP_KEEP", "16M")], &[("VMALLOC_MMAP_KEEP", "16M"), ("VMALLOC_MMAP_CLEAR", "0")]];

fn map() -> usize {
    // SAFETY: a new mapping touches nothing that is there.
    let memory = unsafe { libc::mmap(ptr::null_mut(), BYTES, READ_WRITE, PRIVATE, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.expose_provenance()
}

fn unmap(addr: usize) {
    // SAFETY: the caller's pages.
    assert_eq!(unsafe { libc::munmap(ptr::with_exposed_provenance_mut(addr), BYTES) }, 0);
}

/// Returns the access to the page at `addr` and the flags that the kernel shows of its mapping.
fn flags(addr: usize) -> String {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("the mappings can be read");
    let mut access = None;
    for line in text.lines() {
        let mut words = line.split(' ');
        let range = words.next().and_then(|word| word.split_once('-'));
        let bounds = range.and_then(|(start, end)| {
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(bounds) = bounds {
            access = words.next().filter(|_| bounds.contains(&addr));
        }
        if let (Some(access), Some(flags)) = (access, line.strip_prefix("VmFlags: ")) {
            // That there may be a guard is told of neighbours as well, once they were joined.
            return format!("{access} {}", flags.replace("gu ", ""));
        }
    }
    String::new()
}

/// Does something to an area, and returns whether it was done.
type Effect = fn(*mut libc::c_void) -> bool;

const EFFECTS: [(&str, Effect); 9] = effects();

const fn effects() -> [(&'static str, Effect); 9] {
    [
        // SAFETY: pages of an area of the test\'s own.
        ("a write", |at| unsafe {
            at.cast::<u64>().write(1);
            true
        }),
        // SAFETY: pages of an area of the test\'s own.
        ("mprotect", |at| unsafe { libc::mprotect(at, 4096, libc::PROT_READ) == 0 }),
        // SAFETY: pages of an area of the test\'s own.
        ("DONTFORK", |at| unsafe { libc::madvise(at, BYTES, libc::MADV_DONTFORK) == 0 }),
        // SAFETY: pages of an area of the test\'s own.
        ("WIPEONFORK", |at| unsafe { libc::madvise(at, 4096, libc::MADV_WIPEONFORK) == 0 }),
        // SAFETY: pages of an area of the test\'s own.
        ("RANDOM", |at| unsafe { libc::madvise(at, BYTES, libc::MADV_RANDOM) == 0 }),
        // SAFETY: pages of an area of the test\'s own.
        ("mlock", |at| unsafe { libc::mlock(at, BYTES) == 0 }),
        // SAFETY: pages of an area of the test\'s own.
        ("a shared mapping over it", |at| unsafe {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(at, BYTES, READ_WRITE, flags, -1, 0) == at
        }),
        // SAFETY: pages of an area of the test\'s own.
        ("a mapping moved into it", |at| unsafe {
            let from = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, PRIVATE, -1, 0);
            libc::mremap(from, 4096, 4096, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, at) == at
        }),
        // SAFETY: pages of an area of the test\'s own.
        ("a guard in it", |at| unsafe { libc::madvise(at, 4096, 102) == 0 }),
    ]
}

#[test]
fn nothing_but_the_pages_outlasts_a_mapping() {
    for settings in KEEP {
        again(effects_under_the_library, settings);
    }
}

#[test]
#[ignore = "run by the others, under the library"]
fn effects_under_the_library() {
    let (fresh, neighbour) = (map(), map());
    let (base, bytes) = reservation();
    assert!(fresh - base < bytes && neighbour - base < bytes);
    let meant = flags(fresh);
    assert!(meant.starts_with("rw-p "), "{meant}");
    unmap(fresh);
    assert_eq!(map(), fresh, "it was kept, and is reused");
    for (name, effect) in EFFECTS {
        let addr = map();
        if !effect(ptr::with_exposed_provenance_mut(addr)) {
            not_run(format_args!("an area kept after {name}"), "the kernel refuses it");
        }
        unmap(addr);
        let later = map();
        assert_eq!(flags(later), meant, "after {name}");
        let words = ptr::with_exposed_provenance::<u64>(later);
        // SAFETY: mapped just now. A guard that was left would end the test.
        assert!((0..BYTES / 8).all(|at| unsafe { words.add(at).read() } == 0), "zeros after {name}");
        unmap(later);
    }
}

#[test]
fn a_budget_is_kept_and_large_areas_are_not() {
    again(budget_under_the_library, &[("VMALLOC_MMAP_KEEP", "512K")]);
}

#[test]
#[ignore = "run by the others, under the library"]
fn budget_under_the_library() {
    let areas: Vec<_> = (0..16).map(|_| map()).collect();
    areas.iter().for_each(|&addr| unmap(addr));
    let kept = areas.iter().filter(|&&addr| flags(addr).starts_with("rw-p")).count();
    assert_eq!(kept, (512 << 10) / BYTES, "as many as the budget has room for");
}
