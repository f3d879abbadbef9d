//! Frees after which a stale access traps at once, with each kind of guards.

use crate::common::trapping::*;
use crate::common::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc::{FrameSupply, Protection, SpaceOptions};
use vmalloc_linux::{LinuxOptions, open};

#[test]
fn a_stale_access_ends_the_program() {
    in_own_process(|| {
        for_each_space(|space| {
            let addr = alloc(space, 16);
            fill_area(addr, 16, 1);
            free(space, addr);
            let status = vmalloc_harness::status_of_child(|| {
                // SAFETY: a default action, and a freed byte.
                unsafe {
                    let _ = [libc::SIGSEGV, libc::SIGBUS].map(|signal| libc::signal(signal, libc::SIG_DFL));
                    byte(addr + 5 * page_bytes()).read_volatile();
                }
                true
            });
            let signal = libc::WTERMSIG(status);
            assert!(
                libc::WIFSIGNALED(status) && [libc::SIGSEGV, libc::SIGBUS].contains(&signal),
                "{status:#x}"
            );
        });
    });
}

/// Nothing of a large area is there before it is touched.
#[test]
fn a_large_area_takes_memory_as_it_is_touched() {
    in_own_process(|| {
        let Some(space) = with_userfault(LinuxOptions::new()) else { return };
        let before = status_bytes("RssAnon");
        let addr = alloc(&space, 100_000);
        // SAFETY: the test has allocated the page.
        unsafe { byte(addr + 77_777 * page_bytes()).write_volatile(1) };
        assert!(status_bytes("RssAnon") < before + (64 << 20));
        traps(addr + 100_000 * page_bytes(), 1);
        free(&space, addr);
        traps(addr + 77_770 * page_bytes(), 20);
    });
}

#[test]
fn two_threads_and_forks_meanwhile() {
    in_own_process(|| {
        for_each_space(|space| {
            let (sizes, values) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let use_some = || {
                let round = sizes.fetch_add(7, Ordering::Relaxed);
                let pages = if round.is_multiple_of(50) { LARGE } else { 1 + round % 70 };
                let value = values.fetch_add(1, Ordering::Relaxed) as u8;
                let addr = alloc(space, pages);
                fill_area(addr, pages, value);
                assert_area(addr, pages, value);
                free(space, addr);
            };
            forks_amid(20, &[&use_some, &use_some], || {
                for pages in [1, 40, LARGE] {
                    let addr = alloc(space, pages);
                    fill_area(addr, pages, 9);
                    free(space, addr);
                    traps(addr, pages);
                }
                true
            });
            let addr = alloc(space, 30);
            free(space, addr);
            traps(addr, 31);
        });
    });
}

/// The kernel moves neither locked pages nor those that a child shares: they are dropped.
#[test]
fn locked_and_shared_pages_trap_too() {
    in_own_process(|| {
        for_each_space(|space| {
            let addr = alloc(space, 8);
            fill_area(addr, 8, 1);
            // SAFETY: the area is the test's.
            assert_eq!(unsafe { libc::mlock(byte(addr + 2 * page_bytes()).cast(), 2 * page_bytes()) }, 0);
            free(space, addr);
            traps(addr, 9);
            let again = alloc(space, 8);
            fill_area(again, 8, 2);
            // SAFETY: the child waits, and dies without touching anything.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: no conditions.
                unsafe {
                    libc::pause();
                    libc::_exit(0);
                }
            }
            free(space, again);
            traps(again, 9);
            let third = alloc(space, 8);
            fill_area(third, 8, 3);
            // SAFETY: the child is ours.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            assert_area(third, 8, 3);
            free(space, third);
            traps(third, 9);
        });
    });
}

/// Daemons close what they have inherited, whatever that is.
#[test]
fn all_descriptors_may_be_closed() {
    in_own_process(|| {
        for_each_space(|space| {
            let (kept, large) = (alloc(space, 4), alloc(space, LARGE));
            fill_area(kept, 4, 1);
            fill_area(large, LARGE, 2);
            let frames = scattered_frames(space.platform(), 5);
            // SAFETY: this process was made for it.
            unsafe { process::close_from(3) };
            let log = std::fs::File::open("/dev/null").unwrap();
            let areas: Vec<_> = (0..40).map(|_| alloc(space, 9)).collect();
            areas.iter().for_each(|addr| fill_area(*addr, 9, 3));
            let (freed, rest): (Vec<_>, Vec<_>) = (0..40).zip(areas).partition(|(nth, _)| nth % 2 == 0);
            freed.iter().for_each(|(_, addr)| free(space, *addr));
            space.purge().unwrap();
            let is_gone = || freed.iter().for_each(|(_, addr)| traps(*addr, 9));
            is_gone();
            assert_area(kept, 4, 1);
            in_forked_child(|| {
                is_gone();
                assert_area(large, LARGE, 2);
                assert!(log.metadata().is_ok(), "the program's descriptors stay open");
                free(space, large);
                traps(large, LARGE);
                let shown = space.raw().map(&frames, Protection::Read, None).unwrap();
                assert_eq!(space.read(shown, &mut vec![0; 5 * page_bytes()]), 5 * page_bytes());
                space.platform().take_run(1, 1).is_ok()
            });
            give(space.platform(), &frames);
            rest.iter().for_each(|(_, addr)| free(space, *addr));
        });
    });
}

/// The descriptor of the page map is opened when it is first needed.
#[test]
fn a_closed_space_leaves_files_open_that_have_the_numbers_of_its_descriptors() {
    use std::os::fd::AsRawFd;
    in_own_process(|| {
        for batches in Batches::ALL {
            let options = LinuxOptions::new().max_bytes(span()).drain_thread(false);
            let opening = || open(options, SpaceOptions::default());
            let Some(space) = opened(batches.opening(opening)) else { continue };
            let large = alloc(&space, 1024);
            // SAFETY: the area is the test's.
            unsafe { space.raw().reset(std::slice::from_ref(&(large..large + 1024 * page_bytes()))) }
                .unwrap();
            let areas: Vec<_> = (0..40).map(|_| alloc(&space, 4)).collect();
            areas.iter().step_by(2).for_each(|addr| free(&space, *addr));
            space.purge().unwrap();
            // SAFETY: this process was made for it.
            unsafe { process::close_from(3) };
            let files: Vec<_> = (0..4).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
            assert_eq!(files[0].as_raw_fd(), 3);
            drop(space);
            let is_open = |file: &std::fs::File| file.metadata().is_ok();
            // A file that was closed must not be closed again, which ends the program.
            let still: Vec<_> = files.iter().map(is_open).collect();
            std::mem::forget(files);
            assert_eq!(still, [true; 4], "{batches:?}");
        }
    });
}

/// Memory that a handler of the program has mapped in the child of a fork, before ours ran.
static MAPPED_IN_CHILD: AtomicUsize = AtomicUsize::new(0);
const MAPPED: usize = 64 << 20;

extern "C" fn map_in_child() {
    // SAFETY: fresh memory, at an address that the kernel chooses.
    let memory = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), MAPPED, access, flags, -1, 0)
    };
    MAPPED_IN_CHILD.store(memory.addr(), Ordering::Relaxed);
}

#[test]
fn memory_that_an_earlier_fork_handler_maps_is_left_alone_in_the_child() {
    in_own_process(|| {
        // SAFETY: the handler makes one call of the kernel.
        assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(map_in_child)) }, 0);
        let Some(space) = with_userfault(LinuxOptions::new().drain_thread(false)) else { return };
        let freed = alloc(&space, 20);
        fill_area(freed, 20, 1);
        free(&space, freed);
        in_forked_child(move || {
            for pages in [1, 40, LARGE] {
                let addr = alloc(&space, pages);
                fill_area(addr, pages, 2);
                free(&space, addr);
                traps(addr, pages);
            }
            drop(space);
            let mapped = MAPPED_IN_CHILD.load(Ordering::Relaxed);
            assert_ne!(mapped, usize::MAX);
            fill_area(mapped, MAPPED / page_bytes(), 3);
            true
        });
    });
}
