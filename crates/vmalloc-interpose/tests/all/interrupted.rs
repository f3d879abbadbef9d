//! Calls in handlers of signals, in children of forks made while other threads are inside a call,
//! and after settings and limits under which nothing is served.

use crate::common::held_fork::{during_a_fork, fork_and};
use crate::common::{again, reservation};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KIB_64: usize = 64 << 10;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
/// Both ways of unmapping.
const MODES: [&[(&str, &str)]; 2] = [&[], &[("VMALLOC_MMAP_KEEP", "16M")]];

/// Maps memory, and returns its address.
fn map(len: usize) -> usize {
    // SAFETY: a new mapping touches nothing that is there.
    let memory = unsafe { libc::mmap(ptr::null_mut(), len, READ_WRITE, PRIVATE, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.expose_provenance()
}

/// Unmaps memory of the caller's.
fn unmap(addr: usize, len: usize) {
    // SAFETY: the caller's pages.
    assert_eq!(unsafe { libc::munmap(ptr::with_exposed_provenance_mut(addr), len) }, 0);
}

/// Maps memory, finds zeros, writes, sets a part read-only, and unmaps all in two parts or one.
fn use_memory(len: usize, in_parts: bool) {
    let addr = map(len);
    let word = ptr::with_exposed_provenance_mut::<u64>(addr);
    // SAFETY: mapped just now.
    unsafe {
        assert_eq!(word.read_volatile(), 0);
        word.write_volatile(u64::MAX);
    }
    if in_parts {
        // SAFETY: the caller's pages.
        assert_eq!(unsafe { libc::mprotect(word.cast(), 4096, libc::PROT_READ) }, 0);
        unmap(addr, len / 2);
        unmap(addr + len / 2, len / 2);
    } else {
        unmap(addr, len);
    }
}

fn is_served(addr: usize) -> bool {
    let (base, bytes) = reservation();
    addr.wrapping_sub(base) < bytes
}

#[test]
fn handlers_map_memory_while_the_thread_is_in_a_call() {
    for mode in MODES {
        again(handlers_under_the_library, mode);
    }
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: i32) {
    // SAFETY: this thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    use_memory(KIB_64, HANDLED.fetch_add(1, Ordering::Relaxed).is_multiple_of(2));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[test]
#[ignore = "run by the others, under the library"]
fn handlers_under_the_library() {
    let every = libc::timeval { tv_sec: 0, tv_usec: 100 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the handler makes system calls alone. The timer's signal may reach any thread.
    unsafe {
        libc::signal(libc::SIGALRM, handle as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut());
    }
    let mut step = 0;
    while HANDLED.load(Ordering::Relaxed) < 2000 {
        step += 1;
        use_memory(KIB_64 * (1 + step % 5), step.is_multiple_of(3));
    }
    assert!(is_served(map(KIB_64)));
}

#[test]
fn children_go_on_whatever_other_threads_were_doing() {
    for mode in MODES {
        again(forks_under_the_library, mode);
    }
}

#[test]
#[ignore = "run by the others, under the library"]
fn forks_under_the_library() {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut step = 0;
                while !is_over.load(Ordering::Relaxed) {
                    step += 1;
                    use_memory(KIB_64 * (thread + step % 5), step.is_multiple_of(2));
                }
            });
        }
        for _ in 0..300 {
            fork_and_use();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn fork_and_use() {
    fork_and(|| (0..20).for_each(|step| use_memory(KIB_64 * (1 + step % 5), step % 2 == 0)));
}

#[test]
fn what_was_unmapped_during_a_fork_is_mapped_again_after_it() {
    for mode in MODES {
        again(unmapped_in_fork_under_the_library, mode);
    }
}

/// Areas of the sizes, at the lowest addresses of the reservation.
struct Areas {
    whole: usize,
    cut: usize,
    kept: usize,
    over: usize,
}

const AREA: usize = 16 * KIB_64;

#[test]
#[ignore = "run by the others, under the library"]
fn unmapped_in_fork_under_the_library() {
    let [whole, cut, kept, over] = [AREA, AREA, AREA, AREA].map(map);
    assert!([whole, cut, kept, over].into_iter().all(is_served));
    unmap(kept, AREA);
    let mut areas = Areas { whole, cut, kept, over };
    during_a_fork(&mut areas, change_areas, find_changes);
    find_changes(&mut areas);
}

fn change_areas(areas: &mut Areas) {
    unmap(areas.whole, AREA);
    unmap(areas.cut + KIB_64, AREA - 2 * KIB_64);
    // Where an area may be kept: what is mapped there is the program's from now on.
    assert_eq!(place(areas.kept), areas.kept, "a hole");
    assert_eq!(place(areas.kept), libc::MAP_FAILED.addr(), "no longer a hole");
    for word in [areas.cut, areas.cut + AREA - KIB_64, areas.kept, areas.over] {
        // SAFETY: the caller's pages.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(word).write_volatile(word) };
    }
    // SAFETY: the caller's pages, which have a hole.
    let protected = unsafe {
        libc::mprotect(ptr::with_exposed_provenance_mut(areas.cut), AREA, libc::PROT_READ | libc::PROT_WRITE)
    };
    assert_eq!((protected, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOMEM)));
    assert!(!is_served(map(AREA)), "the kernel's");
}

fn find_changes(areas: &mut Areas) {
    let fresh = [(); 40].map(|()| map(KIB_64));
    let is_hole = |addr: &usize| (areas.whole..areas.whole + AREA).contains(addr);
    assert_eq!(fresh.iter().filter(|addr| is_hole(addr)).count(), AREA / KIB_64, "{fresh:x?}");
    for addr in fresh {
        // SAFETY: mapped just now.
        let word = unsafe { ptr::with_exposed_provenance_mut::<usize>(addr).replace(usize::MAX) };
        assert_eq!(word, 0, "{addr:x} is fresh");
    }
    for addr in [areas.cut, areas.cut + AREA - KIB_64, areas.kept, areas.over] {
        // SAFETY: the caller's pages.
        let word = unsafe { ptr::with_exposed_provenance::<usize>(addr).read_volatile() };
        assert_eq!(word, addr, "the content is the program's");
    }
    assert_eq!(place(areas.kept), libc::MAP_FAILED.addr(), "it is in use");
    fresh.into_iter().for_each(|addr| unmap(addr, KIB_64));
}

/// Maps 64 KiB at an address, if nothing is there.
fn place(addr: usize) -> usize {
    let flags = PRIVATE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: it replaces nothing.
    unsafe { libc::mmap(ptr::with_exposed_provenance_mut(addr), KIB_64, READ_WRITE, flags, -1, 0).addr() }
}

#[test]
fn more_changes_during_a_fork_than_there_is_room_for_are_made_all_the_same() {
    again(many_changes_in_fork_under_the_library, &[]);
}

#[test]
#[ignore = "run by the others, under the library"]
fn many_changes_in_fork_under_the_library() {
    let mut addr = map(3000 * 4096);
    assert!(is_served(addr));
    during_a_fork(&mut addr, cut_often, find_cuts);
    find_cuts(&mut addr);
}

/// Unmaps every second page.
fn cut_often(addr: &mut usize) {
    for page in 0..1500 {
        let even = *addr + 2 * page * 4096;
        // SAFETY: the caller's page.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(even).write_volatile(even) };
        unmap(even + 4096, 4096);
    }
    assert_eq!(place(*addr + 2999 * 4096), libc::MAP_FAILED.addr(), "there is no room for another change");
}

fn find_cuts(addr: &mut usize) {
    // Whatever is mapped now lies beside the pages that are left.
    let fresh = [(); 100].map(|()| map(KIB_64));
    for addr in fresh {
        // SAFETY: mapped just now.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(addr).write_bytes(u8::MAX, KIB_64) };
    }
    for even in (0..1500).map(|page| *addr + 2 * page * 4096) {
        // SAFETY: the caller's page.
        let word = unsafe { ptr::with_exposed_provenance::<usize>(even).read_volatile() };
        assert_eq!(word, even, "the content is the program's");
        let mut resident = 0;
        let hole = ptr::with_exposed_provenance_mut(even + 4096);
        // SAFETY: it reads nothing of the page but whether it is resident.
        let found = unsafe { libc::mincore(hole, 4096, &raw mut resident) };
        assert!(found != 0 || resident & 1 == 0, "the page behind {even:x} was unmapped");
    }
    fresh.into_iter().for_each(|addr| unmap(addr, KIB_64));
}

#[test]
fn all_mappings_are_the_kernels_after_mlockall() {
    again(mlockall_under_the_library, &[("VMALLOC_MMAP_KEEP", "16M")]);
}

#[test]
#[ignore = "run by the others, under the library"]
fn mlockall_under_the_library() {
    let kept = map(KIB_64);
    unmap(kept, KIB_64);
    assert!(is_served(kept));
    // Refused or not: only calls that lock pages in advance are meant.
    // SAFETY: no conditions.
    let _ = unsafe { libc::mlockall(libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    let later = map(KIB_64);
    assert!(!is_served(later), "neither the kept area nor a new one");
    // SAFETY: no conditions.
    unsafe { libc::munlockall() };
    unmap(later, KIB_64);
}

#[test]
fn a_machine_that_refuses_the_reservation_serves_by_the_kernel_alone() {
    let output = again(limit_under_the_library, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("all mappings are the kernel's: the limit on addresses"), "{said}");
}

#[test]
#[ignore = "run by the others, under the library"]
fn limit_under_the_library() {
    let limit = libc::rlimit { rlim_cur: 4 << 30, rlim_max: 4 << 30 };
    // SAFETY: a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    (0..10).for_each(|step| use_memory(KIB_64, step % 2 == 0));
    assert_eq!(reservation(), (0, 0));
}

#[test]
fn settings_that_make_no_sense_cost_a_line() {
    let output =
        again(served_under_the_library, &[("VMALLOC_MMAP_KEEP", "much"), ("VMALLOC_MMAP_LEAST", "1")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("VMALLOC_MMAP_KEEP=much makes no sense"), "{said}");
    assert!(said.contains("VMALLOC_MMAP_LEAST=1 makes no sense"), "{said}");
}

#[test]
#[ignore = "run by the others, under the library"]
fn served_under_the_library() {
    let (small, large) = (map(KIB_64 - 4096), map(KIB_64));
    assert!(!is_served(small) && is_served(large));
    unmap(small, KIB_64 - 4096);
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = libc::EXDEV };
    unmap(large, KIB_64);
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, libc::EXDEV, "a call that succeeds leaves it");
}

#[test]
fn the_least_size_is_told_by_a_setting() {
    again(page_under_the_library, &[("VMALLOC_MMAP_LEAST", "4K")]);
}

#[test]
#[ignore = "run by the others, under the library"]
fn page_under_the_library() {
    assert!(is_served(map(1)));
}

#[test]
fn the_kernel_never_maps_into_a_hole() {
    again(holes_under_the_library, &[]);
}

#[test]
#[ignore = "run by the others, under the library"]
fn holes_under_the_library() {
    // Larger than the gaps between the libraries of a program: the kernel would take the hole.
    let (hole, piece) = (256 << 20, 30 << 20);
    let addr = map(hole + 2 * KIB_64);
    assert!(is_served(addr));
    unmap(addr + KIB_64, hole);
    let mut later = Vec::new();
    for _ in 0..16 {
        // SAFETY: a new mapping touches nothing that is there.
        let memory = unsafe { libc::syscall(libc::SYS_mmap, 0, piece, READ_WRITE, PRIVATE, -1, 0) };
        assert!(memory != -1 && !is_served(memory as usize), "{memory:x} lies in the reservation");
        later.push(memory as usize);
    }
    assert!((addr..addr + hole).contains(&map(hole / 2)), "the hole is reused");
    later.into_iter().for_each(|addr| unmap(addr, piece));
}

#[test]
fn a_hole_is_handed_out_where_the_program_asks_for_it() {
    for mode in MODES {
        again(no_replace_under_the_library, mode);
    }
}

#[test]
#[ignore = "run by the others, under the library"]
fn no_replace_under_the_library() {
    let addr = map(2 * KIB_64);
    assert_eq!(place(addr), libc::MAP_FAILED.addr(), "it is in use");
    unmap(addr, KIB_64);
    assert_eq!(place(addr), addr);
    unmap(addr, 2 * KIB_64);
    assert_eq!(place(addr + KIB_64), addr + KIB_64);
    assert_ne!(map(2 * KIB_64), addr, "the second half is in use");
}
