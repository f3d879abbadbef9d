//! Limits of the machine: each in a process of its own, which it may ruin.

use crate::common::crowd::Crowd;
use crate::common::process::{set_limit, set_soft_limit};
use crate::common::*;
use rustix::process::Resource;
use vmalloc::{
    Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformError, PlatformFault, Protect, Protection,
    ReadNofault, Relocate, Request, Resize,
};
use vmalloc_harness::{kernel_map_limit, map_limit};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux, LinuxOptions, ReserveError, SpaceOptions, open};

fn span() -> usize {
    page_bytes() << 22
}

#[test]
fn a_limit_on_address_space_makes_the_span_smaller_and_is_named_when_it_forbids_it() {
    in_own_process(|| {
        const LIMIT: u64 = 4 << 30;
        set_limit(Resource::As, LIMIT);

        let linux = reserved(LinuxOptions::new());
        assert!(linux.reserved_bytes() as u64 <= LIMIT / 2);
        assert!(linux.reserved_bytes() as u64 >= LIMIT / 8);
        map(&linux, pages(&linux, 0, 4));
        drop(linux);

        let used = status_bytes("VmSize:") as u64;
        set_limit(Resource::As, used + (8 << 20));
        let refused = Linux::reserve(LinuxOptions::new(), &SpaceOptions::default()).unwrap_err();
        let ReserveError::AddressSpaceLimit { bytes, limit, .. } = refused else { panic!("{refused:?}") };
        assert_eq!((bytes, limit), (16 << 20, used + (8 << 20)));
        let told = refused.to_string();
        assert!(told.starts_with("16 MiB more than the ") && told.contains("would pass RLIMIT_AS"), "{told}");
    });
}

#[test]
fn more_than_the_machine_has_is_halved() {
    in_own_process(|| {
        let bytes = 1 << 60;
        let halved = reserved(LinuxOptions::new().max_bytes(bytes));
        assert!(halved.reserved_bytes() < bytes && halved.reserved_bytes().is_power_of_two());
    });
}

/// `RLIMIT_DATA` counts accessible memory: opening a chunk or an area runs into it.
#[test]
fn want_of_memory_maps_nothing_and_passes() {
    in_own_process(|| {
        for guards in guards_by_mapping() {
            let Some(linux) = reserve(span(), guards, Batches::Refused) else { continue };
            let first = pages(&linux, 0, 1);
            map(&linux, first);
            fill(&linux, first, 1);
            set_soft_limit(Resource::Data, 1 << 30);

            // In the middle of the huge area to come, a chunk that is open: it is opened in two
            // steps.
            let middle = pages(&linux, 3 * CHUNK_PAGES, 1);
            map(&linux, middle);
            linux.do_unmap(&[middle]).unwrap();
            // And three mappings, of which the kernel opens the first before it refuses the last.
            let page = page_ptr(&linux, middle.start()).cast();
            // SAFETY: the test owns the page, and the advice leaves its content.
            assert_eq!(unsafe { libc::madvise(page, page_bytes(), libc::MADV_NOHUGEPAGE) }, 0);
            let huge = pages(&linux, 2, (span() / 2 / page_bytes()) as u64);
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

#[test]
fn mprotect_guards_stop_before_the_limit_on_mappings() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        let Some(linux) = reserve(span(), GuardMeans::Mprotect, Batches::Refused) else { return };
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

/// Windows of one page each, scattered in the span and in the supply, until that is refused.
fn window_until_refused(linux: &Linux, frames: &[Frame], most: u64) -> (u64, PlatformError) {
    for index in 0..most {
        let frame = frames[index as usize % frames.len()];
        let range = pages(linux, 3 * index, 1);
        // SAFETY: the test owns the range, and took the frame.
        if let Err(error) = unsafe { linux.map_frames(range, &[frame], Protection::ReadWrite) } {
            return (index, error);
        }
    }
    panic!("{most} windows were mapped");
}

#[test]
fn windows_stop_before_the_limit_on_mappings() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        for guards in guards_by_mapping() {
            let Some(linux) = reserve(span(), guards, Batches::Taken) else { continue };
            let frames = scattered_frames(&linux, 100);
            frames.iter().for_each(|frame| set_frame(&linux, *frame, 5));
            // In one chunk: nothing but the move draws.
            let [in_several_mappings, elsewhere] = [0, 100].map(|at| pages(&linux, (1 << 20) + at, 12));
            map_in_several(&linux, in_several_mappings);
            let before = mappings(&linux);
            let (mapped, refused) = window_until_refused(&linux, &frames, max);
            assert_eq!(refused.fault, PlatformFault::MapLimit, "{refused}");
            assert!(refused.to_string().contains("vm.max_map_count"), "{refused}");
            assert!(mapped > max / 4, "only {mapped} of {max}");
            assert!(mappings(&linux) as u64 <= max * 9 / 10);
            assert_traps(&linux, pages(&linux, 3 * mapped, 1));
            assert_eq!(linux.frame_at(linux.geometry().span.start() + 3 * mapped), None);
            assert_reads(&linux, pages(&linux, 3 * (mapped - 1), 1), 5);

            // All draw from the same budget.
            assert_stays(&linux, in_several_mappings, elsewhere);
            // Windows in place of windows cost nothing.
            map_frames(&linux, pages(&linux, 300, 1), &[frames[7]]);
            // The rest of the program goes on, and what is freed can be had again.
            assert_eq!(std::thread::spawn(|| vec![1_u8; 1 << 22].len()).join().unwrap(), 1 << 22);
            let all: Vec<_> = (0..mapped).map(|index| pages(&linux, 3 * index, 1)).collect();
            linux.do_unmap(&all).unwrap();
            all.iter().step_by(17).for_each(|range| assert_traps(&linux, *range));
            assert!(mappings(&linux) <= before + 4, "{} mappings, there were {before}", mappings(&linux));
            map(&linux, all[3]);
            assert_reads(&linux, all[3], 0);
        }
    });
}

/// Five mappings: moved twice, and a part of it can't be written. Each page has a value of its own.
fn map_in_several(linux: &Linux, range: PageRange) {
    let part = |first, len| PageRange::from_len(range.start() + first, len).unwrap();
    let begin = pages(linux, 1 << 19, 5);
    map(linux, begin);
    fill(linux, begin, 0);
    // SAFETY: the test owns all of them.
    unsafe {
        linux.relocate(begin, part(0, 5)).unwrap();
        linux.do_unmap(&[begin]).unwrap();
        map(linux, part(5, 7));
        for page in (0..12).filter(|page| *page != 4) {
            fill(linux, part(page, 1), page as u8 + 1);
        }
        linux.protect(part(1, 1), Protection::Read).unwrap();
        linux.protect(part(6, 3), Protection::Read).unwrap();
    }
}

fn assert_in_several(linux: &Linux, range: PageRange) {
    for page in 0..12 {
        let value = if page == 4 { 0 } else { page as u8 + 1 };
        assert_eq!(peek(linux, range.start() + page), Some(value), "page {page}");
    }
}

/// Moving is refused at the limit on mappings, and both ranges are as before.
fn assert_stays(linux: &Linux, from: PageRange, to: PageRange) {
    // SAFETY: the test owns both.
    let refused = unsafe { linux.relocate(from, to) }.unwrap_err();
    assert_eq!(refused.fault, PlatformFault::MapLimit, "{refused}");
    assert_in_several(linux, from);
    assert_traps(linux, to);
}

/// Not for want of mappings: then what was moved before is moved back, and not copied.
#[test]
fn a_move_into_a_hole_of_the_span_is_undone() {
    in_own_process(|| {
        for guards in guards_by_mapping() {
            let Some(linux) = reserve(span(), guards, Batches::Taken) else { continue };
            let (from, to) = (pages(&linux, 100, 12), pages(&linux, 200, 12));
            map_in_several(&linux, from);
            // Somebody has unmapped the last pages: the last of five moves finds nothing.
            let end = page_ptr(&linux, from.end() - 3).cast();
            let bytes = 3 << linux.geometry().page_shift;
            // SAFETY: the test owns the pages.
            assert_eq!(unsafe { libc::munmap(end, bytes) }, 0);
            let before = mappings(&linux);
            // SAFETY: the test owns both.
            let refused = unsafe { linux.relocate(from, to) }.unwrap_err();
            assert_eq!(refused.fault, PlatformFault::Unsupported, "{refused}");
            assert_traps(&linux, to);
            for page in (0..9).filter(|page| *page != 4) {
                assert_eq!(peek(&linux, from.start() + page), Some(page as u8 + 1), "page {page}");
            }
            assert_eq!(peek(&linux, from.start() + 4), Some(0));
            assert!(mappings(&linux) <= before + 1, "{} mappings, there were {before}", mappings(&linux));
            // The span is unmapped as one.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: nothing is there.
            let again = unsafe { libc::mmap(end, bytes, libc::PROT_NONE, flags, -1, 0) };
            assert_eq!(again, end);
        }
    });
}

/// The kernel's own refusal, in the middle of a range.
#[test]
fn windows_that_the_kernel_refuses_leave_nothing_behind() {
    in_own_process(|| {
        let Some(max) = kernel_map_limit() else { return };
        for guards in guards_by_mapping() {
            let Some(linux) = reserve(span(), guards, Batches::Taken) else { continue };
            let frames = scattered_frames(&linux, 100);
            let (windows, plain, moved) =
                (pages(&linux, 10, 100), pages(&linux, 200, 9), pages(&linux, 220, 9));
            let fresh = pages(&linux, 400, 100);
            map_frames(&linux, pages(&linux, 10, 4), &frames[..4]);
            fill(&linux, pages(&linux, 10, 4), 6);
            map(&linux, plain);
            fill(&linux, plain, 7);
            // The budget believes that there is plenty.
            let mut crowd = Crowd::gather(max);
            // The one that puts windows back to what they were comes last: it makes room.
            // SAFETY: the test owns the ranges, and took the frames.
            let refusals = unsafe {
                [
                    linux.relocate(plain, moved),
                    linux.protect(pages(&linux, 202, 3), Protection::Read),
                    {
                        // The first of them can be mapped.
                        (0..15).for_each(|_| crowd.thin());
                        linux.map_frames(fresh, &frames, Protection::ReadWrite)
                    },
                    linux.map_frames(windows, &frames, Protection::ReadWrite),
                ]
            };
            let trap =
                [fresh, moved].map(|range| (peek(&linux, range.start()), peek(&linux, range.end() - 1)));
            drop(crowd);
            for refused in refusals {
                let refused = refused.unwrap_err();
                assert_eq!(refused.fault, PlatformFault::MapLimit, "{refused}");
                assert!(refused.call.contains("vm.max_map_count"), "{refused}");
            }
            assert_eq!(trap, [(None, None); 2]);
            for range in [windows, fresh] {
                linux.do_unmap(&[range]).unwrap();
                assert_traps(&linux, range);
                map_frames(&linux, range, &frames);
                assert_reads(&linux, pages(&linux, range.start() - linux.geometry().span.start(), 4), 6);
            }
            assert_reads(&linux, plain, 7);
            // Whether a part has another protection is no longer known: then the pages are not
            // moved. SAFETY: as above.
            unsafe {
                assert!(linux.relocate(plain, moved).is_err());
                linux.protect(plain, Protection::ReadWrite).unwrap();
                linux.relocate(plain, moved).unwrap();
            }
            assert_reads(&linux, moved, 7);
        }
    });
}

#[test]
fn a_limit_on_address_space_makes_the_supply_smaller_and_windows_fit_in_it() {
    in_own_process(|| {
        const LIMIT: u64 = 4 << 30;
        set_soft_limit(Resource::As, LIMIT);
        let linux = reserved(LinuxOptions::new());
        let linear = linux.geometry().linear_map.unwrap().len() << linux.geometry().page_shift;
        assert!((LIMIT / 32..=LIMIT / 4).contains(&linear), "{linear} bytes of frames");
        let frames = scattered_frames(&linux, 50);
        // Next to nothing is left: windows take the place of what was reserved, but for the moment
        // of the call.
        let used = std::fs::read_to_string("/proc/self/statm").unwrap();
        let used: u64 = used.split(' ').next().unwrap().parse().unwrap();
        let used = used << linux.geometry().page_shift;
        set_soft_limit(Resource::As, used);
        let (range, plain) = (pages(&linux, 5, 50), pages(&linux, 100, 10));
        // SAFETY: the test owns the range, and took the frames.
        let refused = unsafe { linux.map_frames(range, &frames, Protection::ReadWrite) };
        assert_eq!(refused.map_err(|refused| refused.fault), Err(PlatformFault::OutOfMemory));
        assert_traps(&linux, range);
        set_soft_limit(Resource::As, used + (1 << 20));
        for _ in 0..3 {
            map_frames(&linux, range, &frames);
            fill(&linux, range, 3);
            map(&linux, plain);
            // SAFETY: the test owns the range.
            unsafe { linux.protect(plain, Protection::Read) }.unwrap();
            linux.do_unmap(&[range, plain]).unwrap();
            assert_traps(&linux, range);
        }
        // Too little for any supply.
        drop(linux);
        let none = reserved(LinuxOptions::new().max_bytes(1 << 20));
        assert!(none.reserved_bytes() >= 1 << 20);
    });
}

/// Taking frames needs a descriptor for a moment, and a file of that size.
#[test]
fn limits_on_descriptors_and_files_refuse_frames_until_they_are_raised() {
    in_own_process(|| {
        let linux = reserved(LinuxOptions::new().max_bytes(1 << 28));
        for (resource, fault) in
            [(Resource::Nofile, PlatformFault::Other), (Resource::Fsize, PlatformFault::OutOfMemory)]
        {
            let old = set_soft_limit(resource, 0);
            let refused = linux.take_run(1, 1);
            set_soft_limit(resource, old);
            assert_eq!(refused.unwrap_err().fault, fault);
        }
        let frames = scattered_frames(&linux, 3);
        // No descriptor is kept.
        set_limit(Resource::Nofile, 0);
        map_frames(&linux, pages(&linux, 0, 3), &frames);
        let mut to = [9; 4];
        let addr = page_ptr(&linux, linux.geometry().span.start()).addr();
        assert_eq!(
            (linux.read_nofault(addr, &mut to), linux.read_nofault(addr + 3 * page_bytes() - 1, &mut to)),
            (4, 1)
        );
    });
}

/// Returns how many bytes this process has read, by all its calls.
fn bytes_read() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/io").ok()?;
    told.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

/// Returns how many times `body` has read the list of mappings as a whole; `None` where the kernel
/// does not count what is read.
fn counts_of_mappings(body: impl FnOnce()) -> Option<f64> {
    let begin = bytes_read()?;
    let list = std::fs::read("/proc/self/maps").ok()?.len();
    let listed = bytes_read()?;
    body();
    Some((bytes_read()? - listed) as f64 / (list as f64).max((listed - begin) as f64))
}

/// It found 6 ms a growth: each purge made the next refusal count all mappings of the program.
#[test]
#[cfg_attr(
    target_env = "musl",
    ignore = "its heap keeps nothing in reserve, so the test's own memory is refused"
)]
fn at_the_limit_growth_and_refusals_do_not_count_the_mappings_each_time() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        for guards in guards_by_mapping() {
            for (pages, grown) in [(10, 20), (20, 40), (300, 600)] {
                let options = LinuxOptions::new().max_bytes(span()).drain_thread(false).guard_means(guards);
                let Ok(space) = open(options, SpaceOptions::default()) else { continue };
                let alloc = |pages| space.raw().alloc(&Request::new(pages * page_bytes()));
                let mut areas: Vec<_> = (0..1000).map(|_| alloc(pages).unwrap()).collect();
                let crowd = Crowd::of(max * 7 / 16);
                let grow = || {
                    for (nth, area) in areas.iter_mut().enumerate() {
                        // SAFETY: the area is the test's.
                        let moved = unsafe { space.raw().realloc(*area, &Resize::new(grown * page_bytes())) };
                        *area = moved.unwrap_or(*area);
                        if nth % 10 == 0 {
                            space.purge().unwrap();
                        }
                    }
                };
                let Some(counts) = counts_of_mappings(grow) else {
                    return not_run("counts of mappings", "the kernel does not count what is read");
                };
                assert!(counts < 8.0, "{counts} counts for 1,000 growths of {pages} pages, {guards:?}");
                drop(crowd);

                // And where the kernel itself refuses.
                let crowd = Crowd::gather(max);
                let refuse = || {
                    for _ in 0..100 {
                        let _ = alloc(100 << 8).map(|area| free(&space, area));
                        space.purge().unwrap();
                    }
                };
                let counts = counts_of_mappings(refuse).unwrap();
                drop(crowd);
                assert!(counts < 4.0, "{counts} counts for 100 refusals, {guards:?}");
                areas.iter().for_each(|area| free(&space, *area));
            }
        }
    });
}

/// It found 2 GiB of memory for a request of 2^28 frames, which was refused then.
#[test]
fn a_refused_request_for_frames_costs_no_memory() {
    in_own_process(|| {
        const SUPPLY: usize = 1 << 20;
        // Without fast bins: glibc joins their blocks to the list, and clears all of it then.
        #[cfg(target_env = "gnu")]
        // SAFETY: it sets a number of the C library.
        assert_eq!(unsafe { libc::mallopt(libc::M_MXFAST, 0) }, 1);
        let options = LinuxOptions::new().frame_bytes(SUPPLY * page_bytes()).drain_thread(false);
        let space = open(options, SpaceOptions::default()).unwrap();
        let taken = space.frames(1000).unwrap();
        // Ready for the first refusal, with the books of the supply.
        assert!(space.frames(SUPPLY + 1).is_err());
        // As many as the supply has, and far more.
        let (resident, mapped) = (status_bytes("VmHWM:"), status_bytes("VmPeak:"));
        for count in [SUPPLY, 1 << 24, 1 << 28, 1 << 31, usize::MAX] {
            assert!(space.frames(count).is_err(), "{count} frames");
            let request = Request::new(count.saturating_mul(page_bytes()).min(1 << 43));
            assert!(space.raw().alloc_shared(&request).is_err(), "{count} pages");
        }
        let list = SUPPLY * size_of::<Frame>();
        let grown = (status_bytes("VmHWM:") - resident, status_bytes("VmPeak:") - mapped);
        assert!(grown.0 < 1 << 20 && grown.1 < 2 * list, "{grown:?}");
        assert_eq!(taken.len(), 1000);
    });
}
