//! Limits of the machine: each in a process of its own, which it may ruin.

mod common;

use common::*;
use std::num::NonZeroUsize;
use vmalloc::{PlatformError, PlatformFault};
use vmalloc_linux::{CHUNK_PAGES, Guards, Linux, Options, ReserveError, Vectors};

const SPAN: usize = 1 << 34;

fn set_limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a valid limit; this process was made for it.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

#[test]
fn a_limit_on_address_space_makes_the_span_smaller_and_is_named_when_it_forbids_it() {
    in_own_process("a_limit_on_address_space_makes_the_span_smaller_and_is_named_when_it_forbids_it", || {
        const LIMIT: u64 = 4 << 30;
        set_limit(libc::RLIMIT_AS, LIMIT);

        let linux = Linux::reserve(Options::new()).unwrap();
        assert!(linux.reserved_bytes() as u64 <= LIMIT / 2);
        assert!(linux.reserved_bytes() as u64 >= LIMIT / 8);
        map(&linux, pages(&linux, 0, 4));
        drop(linux);

        let exactly = Linux::reserve(Options::new().exactly(1 << 40)).unwrap_err();
        let ReserveError::AddressSpaceLimit { bytes, limit, .. } = exactly else { panic!("{exactly:?}") };
        assert_eq!((bytes, limit), (1 << 40, LIMIT));
        assert!(exactly.to_string().contains("RLIMIT_AS, which is 4294967296 bytes"), "{exactly}");

        let at_least = Linux::reserve(Options::new().at_least(1 << 33)).unwrap_err();
        assert!(
            matches!(at_least, ReserveError::AddressSpaceLimit { bytes: 0x2_0000_0000, .. }),
            "{at_least:?}"
        );
    });
}

#[test]
fn more_than_the_machine_has_is_refused_or_halved() {
    let bytes = 1 << 60;
    let refused = Linux::reserve(Options::new().exactly(bytes)).unwrap_err();
    assert!(matches!(refused, ReserveError::NoRoom { bytes: 0x1000_0000_0000_0000, .. }), "{refused:?}");
    let halved = Linux::reserve(Options::new().up_to(bytes)).unwrap();
    assert!(halved.reserved_bytes() < bytes && halved.reserved_bytes().is_power_of_two());
}

/// `RLIMIT_DATA` counts accessible memory: opening a chunk or an area runs into it.
#[test]
fn want_of_memory_maps_nothing_and_passes() {
    in_own_process("want_of_memory_maps_nothing_and_passes", || {
        for guards in Guards::ALL {
            let Some(linux) = reserve(SPAN, guards, Vectors::Loop) else { continue };
            let first = pages(&linux, 0, 1);
            map(&linux, first);
            fill(&linux, first, 1);
            // SAFETY: no conditions.
            let unlimited = libc::rlimit { rlim_cur: 1 << 30, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a valid limit.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &unlimited) }, 0);

            // In the middle of the huge area to come, a chunk that is open: it is opened in two steps.
            let middle = pages(&linux, 3 * CHUNK_PAGES, 1);
            map(&linux, middle);
            linux.do_unmap(&[middle]).unwrap();
            let huge = pages(&linux, 2, SPAN as u64 / 8192);
            let refused = linux.do_map(huge).unwrap_err();
            assert_eq!(refused.fault, PlatformFault::OutOfMemory);
            assert_reads(&linux, first, 1);
            assert_traps(&linux, pages(&linux, 1, 8));
            for chunk in 1..5 {
                assert_traps(&linux, pages(&linux, chunk * CHUNK_PAGES, 8));
            }

            let small = pages(&linux, CHUNK_PAGES - 2, 4);
            map(&linux, small);
            assert_reads(&linux, small, 0);
        }
    });
}

/// Maps an area of one page, and leaves one free behind it, until that is refused.
fn map_until_refused(linux: &Linux, most: u64) -> (u64, PlatformError) {
    for index in 0..most {
        if let Err(error) = linux.do_map(pages(linux, 2 * index, 1)) {
            return (index, error);
        }
    }
    panic!("{most} areas were mapped");
}

fn map_limit() -> u64 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap()
}

#[test]
fn islands_stop_before_the_limit_on_mappings() {
    in_own_process("islands_stop_before_the_limit_on_mappings", || {
        let max = map_limit();
        if max > 1 << 20 {
            eprintln!("skipped: {max} mappings would take too long");
            return;
        }
        let Some(linux) = reserve(SPAN, Guards::Islands, Vectors::Loop) else { return };
        let (mapped, refused) = map_until_refused(&linux, max);
        assert_eq!(refused.fault, PlatformFault::MapLimit, "{refused}");
        assert!(refused.to_string().contains("vm.max_map_count"), "{refused}");
        assert!(mapped > max / 4, "only {mapped} of {max}");

        // The rest of the program goes on, and what is freed can be had again.
        assert_eq!(std::thread::spawn(|| vec![1_u8; 1 << 22].len()).join().unwrap(), 1 << 22);
        assert_traps(&linux, pages(&linux, 2 * mapped, 1));
        let some: Vec<_> = (0..200).map(|index| pages(&linux, 2 * index, 1)).collect();
        linux.do_unmap(&some).unwrap();
        some.iter().take(100).for_each(|range| map(&linux, *range));
    });
}

/// Other mappings, of the test's own, leave the platform none at all.
struct Crowd {
    base: *mut libc::c_void,
    bytes: usize,
}

impl Crowd {
    /// Splits a mapping into single pages until the kernel refuses.
    fn gather(max: u64) -> Self {
        let page = rustix::param::page_size();
        let bytes = NonZeroUsize::new(2 * max as usize * page).unwrap().get();
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let split = |index: &usize| {
            let at = base.wrapping_byte_add(2 * index * page);
            // SAFETY: inside the mapping just made.
            unsafe { libc::mprotect(at, page, libc::PROT_READ) == 0 }
        };
        let splits = (0..max as usize).take_while(split).count();
        assert!(splits < max as usize);
        Self { base, bytes }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // SAFETY: our own mapping, in which nothing is.
        assert_eq!(unsafe { libc::munmap(self.base, self.bytes) }, 0);
    }
}

#[test]
fn at_the_limit_on_mappings_nothing_is_lost() {
    in_own_process("at_the_limit_on_mappings_nothing_is_lost", || {
        let max = map_limit();
        if max > 1 << 20 {
            eprintln!("skipped: {max} mappings would take too long");
            return;
        }
        for guards in Guards::ALL {
            let Some(linux) = reserve(SPAN, guards, Vectors::Loop) else { continue };
            let whole = pages(&linux, 0, 16 * CHUNK_PAGES);
            let far = pages(&linux, 40 * CHUNK_PAGES + 5, 3);
            let inside = pages(&linux, 2 * CHUNK_PAGES, 9 * CHUNK_PAGES);
            map(&linux, whole);
            let sample = pages(&linux, 2 * CHUNK_PAGES + 1, 3);
            fill(&linux, sample, 4);
            let crowd = Crowd::gather(max);

            let refused = linux.do_map(far).unwrap_err();
            let unmapped = linux.do_unmap(&[inside]);
            drop(crowd);

            assert_eq!(refused.fault, PlatformFault::MapLimit, "{refused}");
            assert!(refused.call.contains("vm.max_map_count"));
            assert_traps(&linux, far);
            match guards {
                // Marks stand in for the mappings that could not be had.
                Guards::Markers => unmapped.unwrap(),
                _ => {
                    assert_eq!(unmapped.unwrap_err().fault, PlatformFault::MapLimit);
                    linux.do_unmap(&[inside]).unwrap();
                }
            }
            assert_traps(&linux, sample);
            for range in [sample, far] {
                map(&linux, range);
                assert_reads(&linux, range, 0);
            }
            assert_eq!(peek(&linux, sample.start() - 1), None);
            assert_eq!(peek(&linux, inside.end()), Some(0));
        }
    });
}

/// Locked pages can be neither dropped nor guarded: better no platform than one that can't purge.
#[test]
fn a_program_that_locks_all_its_memory_is_refused() {
    in_own_process("a_program_that_locks_all_its_memory_is_refused", || {
        // SAFETY: no conditions.
        if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            eprintln!("skipped: this user may not lock memory");
            return;
        }
        for guards in Guards::ALL {
            let refused = Linux::reserve(Options::new().exactly(1 << 28).guards(guards)).unwrap_err();
            let expected = matches!(refused, ReserveError::Unsupported { .. } | ReserveError::NoRoom { .. });
            assert!(expected, "{refused}");
        }
    });
}
