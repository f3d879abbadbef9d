//! Pages moved to other addresses, with every strategy that the kernel has.

use crate::common::crowd::Crowd;
use crate::common::sandbox;
use crate::common::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use vmalloc::{Discard, PageRange, PlatformFault, Protection, Relocate, Request, Resize, SpaceOptions};
use vmalloc_harness::map_limit;
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux, LinuxOptions, open};

/// 1 GiB: many chunks, and room to close some.
fn span() -> usize {
    page_bytes() << 18
}

/// Small areas of userfaultfd can't be moved: the answer says so, and changes nothing.
fn cannot_move(linux: &Linux) -> bool {
    if linux.guard_means() != GuardMeans::Userfault {
        return false;
    }
    let (from, to) = (pages(linux, 10, 4), pages(linux, 100, 4));
    map(linux, from);
    fill(linux, from, 3);
    // SAFETY: the test owns both.
    let moved = unsafe { linux.relocate(from, to) };
    assert_eq!(moved.map_err(|error| error.fault), Err(PlatformFault::Unsupported));
    assert_reads(linux, from, 3);
    assert_traps(linux, to);
    linux.do_unmap(&[from]).unwrap();
    true
}

#[test]
fn a_refused_move_leaves_the_pages_in_place() {
    for_each_strategy(span(), |linux| {
        let (from, to) = (pages(linux, 3, 4), pages(linux, 20, 4));
        let frames = scattered_frames(linux, 4);
        map_frames(linux, from, &frames);
        fill(linux, from, 5);
        let refuse = |from, to| {
            // SAFETY: the test owns both.
            let refused = unsafe { linux.relocate(from, to) }.unwrap_err();
            assert_eq!(refused.fault, PlatformFault::Unsupported, "{refused}");
            assert_reads(linux, from, 5);
        };
        refuse(from, to);
        assert_traps(linux, to);
        linux.do_unmap(&[from]).unwrap();
        map(linux, from);
        fill(linux, from, 5);
        refuse(from, pages(linux, 6, 4));
        refuse(from, pages(linux, 20, 3));
        // Too many mappings.
        let (from, to) = (pages(linux, 40, 9), pages(linux, 60, 9));
        map(linux, from);
        fill(linux, from, 5);
        (41..49).step_by(2).for_each(|page| protect(linux, pages(linux, page, 1), Protection::Read));
        refuse(from, to);
        assert_traps(linux, to);
        assert!(!can_write(linux, from.start() + 1) && can_write(linux, from.start()));
        map(linux, to);
        assert_reads(linux, to, 0);
    });
}

#[test]
fn an_area_of_several_mappings_moves_with_its_protections() {
    for_each_strategy(span(), |linux| {
        if cannot_move(linux) {
            return;
        }
        let mut at = pages(linux, 10, 8);
        map(linux, at);
        let before = mappings(linux);
        let value = |offset: u64| if offset == 1 { 0 } else { offset as u8 + 1 };
        for offset in (0..8).filter(|offset| *offset != 1) {
            fill(linux, PageRange::from_len(at.start() + offset, 1).unwrap(), value(offset));
        }
        // Three mappings, then five; a part of what was moved is protected, too.
        protect(linux, pages(linux, 13, 2), Protection::Read);
        for (round, offset) in [CHUNK_PAGES - 4, 100, 3 * CHUNK_PAGES].into_iter().enumerate() {
            let to = pages(linux, offset, 8);
            // SAFETY: the test owns both.
            unsafe { linux.relocate(at, to) }.unwrap();
            assert_traps(linux, at);
            linux.do_unmap(&[at]).unwrap();
            if round == 0 {
                protect(linux, PageRange::from_len(to.start() + 6, 1).unwrap(), Protection::ReadExecute);
            }
            for offset in 0..8 {
                let page = to.start() + offset;
                assert_eq!(peek(linux, page), Some(value(offset)), "{offset} in round {round}");
                assert_eq!(can_write(linux, page), ![3, 4, 6].contains(&offset), "{offset} in round {round}");
            }
            assert_eq!([peek(linux, to.start() - 1), peek(linux, to.end())], [None; 2]);
            at = to;
        }
        linux.do_unmap(&[at]).unwrap();
        assert_traps(linux, at);
        assert!(mappings(linux) <= before + 4, "{} mappings, there were {before}", mappings(linux));
    });
}

/// Registers memory with a userfaultfd(2) of the program's own, for protection against writes:
/// `None` where the kernel refuses.
fn armed(addr: usize, bytes: usize) -> Option<OwnedFd> {
    // `UFFDIO_API`, `UFFDIO_REGISTER`, and what they exchange, see `linux/userfaultfd.h`.
    const REQUESTS: [libc::c_ulong; 2] = [0xc018_aa3f, 0xc020_aa00];
    let (mut api, mut register) = ([0xaa_u64, 0, 0], [addr as u64, bytes as u64, 2, 0]);
    // SAFETY: a descriptor alone changes nothing; the structures are the calls', and nothing writes
    // to the memory.
    unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1);
        if fd < 0 {
            return None;
        }
        let fd = OwnedFd::from_raw_fd(fd as i32);
        let answers = [
            libc::ioctl(fd.as_raw_fd(), REQUESTS[0] as _, &raw mut api),
            libc::ioctl(fd.as_raw_fd(), REQUESTS[1] as _, &raw mut register),
        ];
        (answers == [0, 0]).then_some(fd)
    }
}

/// From Linux 6.17 on the kernel moves the mappings in front of one that it refuses to move.
#[test]
fn a_move_that_is_refused_half_way_loses_no_content() {
    for (guards, first_armed) in
        guards_by_mapping().flat_map(|guards| [(guards, 4), (guards, 0), (guards, 7)])
    {
        let options = LinuxOptions::new().max_bytes(span()).guard_means(guards);
        let Some(space) = opened(open(options, SpaceOptions::default())) else { continue };
        let old = space.raw().alloc(&Request::new(8 * page_bytes())).unwrap();
        let byte = |addr: usize, page: usize| {
            std::ptr::with_exposed_provenance_mut::<u8>(addr + page * page_bytes() + 7 * page)
        };
        // SAFETY: the area is the test's. Page 2 was never touched.
        [0, 1, 3, 4, 5, 6, 7].iter().for_each(|page| unsafe { byte(old, *page).write(101 + *page as u8) });
        let Some(_fd) = armed(old + first_armed * page_bytes(), (8 - first_armed) * page_bytes()) else {
            return not_run("userfaultfd", std::io::Error::last_os_error());
        };
        // SAFETY: the area is the test's, which uses the new address from here on.
        let new = unsafe { space.raw().realloc(old, &Resize::new(100 * page_bytes())) }.unwrap();
        // SAFETY: as above.
        let read: Vec<_> = (0..8).map(|page| unsafe { byte(new, page).read() }).collect();
        assert_eq!(read, [101, 102, 0, 104, 105, 106, 107, 108], "{guards:?}, armed from {first_armed} on");
        // SAFETY: as above.
        unsafe { space.raw().free(new) }.unwrap();
        space.purge().unwrap();
        space.verify().unwrap();
    }
}

/// Moved pages are replaced when they are discarded, and nothing has to be split for that.
#[test]
fn moved_pages_are_discarded_where_no_mappings_are_left() {
    in_own_process(|| {
        let Some(max): Option<u64> = map_limit() else { return };
        // A few more than the quarter that moves leave alone.
        let mut crowd = Crowd::gather(max);
        (0..max / 8 + 100).for_each(|_| crowd.thin());
        let linux = reserve(span(), GuardMeans::Mprotect, Batches::Refused).unwrap();
        let (from, to) = (pages(&linux, 10, 8), pages(&linux, 100, 8));
        map(&linux, from);
        fill(&linux, from, 1);
        // SAFETY: the test owns both.
        unsafe { linux.relocate(from, to) }.unwrap();
        let draw = |nth: u64| linux.do_map(pages(&linux, 1000 + 4 * nth, 1)).err();
        let refused = (0..max).find_map(draw).expect("the budget is used up");
        assert_eq!(refused.fault, PlatformFault::MapLimit);
        // SAFETY: the test owns the pages, and nothing refers to them.
        unsafe { linux.discard(&[to]) }.unwrap();
        assert_reads(&linux, to, 0);
        fill(&linux, to, 2);
        assert_reads(&linux, to, 2);
        drop(crowd);
        linux.do_unmap(&[to]).unwrap();
        assert_traps(&linux, to);
    });
}

/// The second step of a move is refused, and so is each way to read what the first has moved away.
#[test]
fn pages_that_can_be_moved_neither_on_nor_back_end_the_program() {
    in_own_process(|| {
        for guards in guards_by_mapping() {
            let options = LinuxOptions::new().max_bytes(span()).guard_means(guards).drain_thread(false);
            let Some(space) = opened(open(options, SpaceOptions::default())) else { continue };
            let alloc = || space.raw().alloc(&Request::new(8 * page_bytes())).unwrap();
            let grow = |addr| {
                // SAFETY: the area is the test's, which uses the new address from here on.
                unsafe { space.raw().realloc(addr, &Resize::new(100 * page_bytes())) }
            };
            // Each has another one behind it, and so moves. The first move tries the kernel out.
            let [first, addr, _behind] = [(); 3].map(|()| alloc());
            grow(first).unwrap();
            // SAFETY: the area is the test's.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr + 5 * page_bytes()).write(7) };
            for can_read in [true, false] {
                let (said, status) = vmalloc_harness::output_of_child(|| {
                    let calls = [libc::SYS_mremap, libc::SYS_process_vm_readv, libc::SYS_pipe2];
                    let is_meant = |call: &sandbox::Call| match call.number {
                        libc::SYS_mremap => call.args[3] & libc::MREMAP_FIXED as u64 != 0,
                        _ => !can_read,
                    };
                    let moved = sandbox::refused(&calls, libc::ENOMEM, is_meant, |_| grow(addr)).unwrap();
                    // SAFETY: the area is the test's.
                    let byte =
                        unsafe { std::ptr::with_exposed_provenance::<u8>(moved + 5 * page_bytes()).read() };
                    eprintln!("it holds {byte}");
                });
                if can_read {
                    assert!(status == 0 && said.contains("it holds 7"), "{guards:?}: {said}, {status:#x}");
                } else {
                    assert!(libc::WIFSIGNALED(status), "{guards:?}: {said}, {status:#x}");
                    assert!(said.contains("can be moved neither on nor back"), "{guards:?}: {said}");
                }
            }
        }
    });
}
