//! Older kernels and sandboxes, played by answers to system calls: what they refuse is done by
//! other means.

use crate::common::sandbox::{Answer, Call, refused, supervised};
use crate::common::*;
use crate::environment::{finish, span};
use libc::{SYS_madvise, SYS_process_madvise};
use std::cell::Cell;
use vmalloc::{Frame, FrameSupply, Platform, PlatformFault, ReadNofault};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux, LinuxOptions, SpaceOptions};

/// Maps, fills and purges many scattered ranges.
fn purge_scattered(linux: &Linux) {
    let ranges: Vec<_> = (0..40).map(|index| pages(linux, index * 8, 3)).collect();
    for range in &ranges {
        map(linux, *range);
        assert_reads(linux, *range, 0);
        fill(linux, *range, 1);
    }
    linux.do_unmap(&ranges).unwrap();
    ranges.iter().for_each(|range| assert_traps(linux, *range));
}

/// A space that is opened where advice fails only for some means, or altogether. A program that
/// insists on a means is told what is refused.
#[test]
fn opening_finds_the_means_that_are_left_or_says_what_is_refused() {
    in_own_process(|| {
        let opened = |is_meant: fn(&Call) -> bool| {
            refused(&[SYS_madvise, SYS_process_madvise], libc::EPERM, is_meant, |_| {
                let options = LinuxOptions::new().guard_means(GuardMeans::PteMarkers);
                let insisting = Linux::reserve(options, &SpaceOptions::default());
                let options = LinuxOptions::new().max_bytes(span());
                let space = vmalloc_linux::open(options, SpaceOptions::default().unmap_on_free()).ok()?;
                finish(&space, Default::default());
                let guards = (space.platform().guard_means(), insisting.err().map(|error| error.to_string()));
                Some((guards, space.platform().purges_in_batches()))
            })
        };
        let all = opened(|_| false).unwrap();
        let without = opened(|call| call.number == SYS_process_madvise);
        assert_eq!(without, Some((all.0.clone(), false)));
        let refused = "this kernel refuses madvise(MADV_GUARD_INSTALL) (errno 1)".to_owned();
        let without = opened(|call| call.number == SYS_madvise && call.args[2] == 102);
        assert_eq!(without, Some(((GuardMeans::Mprotect, Some(refused)), all.1)));
        assert_eq!(opened(|call| call.number == SYS_madvise && call.args[2] == 4), None);
    });
}

/// It found a panic on Linux 6.1 without /proc: the size of pages was read from there.
#[test]
fn a_space_opens_where_nothing_tells_the_auxiliary_vector() {
    /// prctl(2) on Linux 6.4; the crate libc does not have it.
    const PR_GET_AUXV: u64 = 0x4155_5856;
    in_own_process(|| {
        let answer = |call: &Call| match call.number {
            libc::SYS_prctl if call.args[0] != PR_GET_AUXV => Answer::Go,
            libc::SYS_prctl => Answer::Fail(libc::EINVAL),
            _ => Answer::Fail(libc::ENOENT),
        };
        // The older call, where the architecture has it.
        #[cfg(target_arch = "x86_64")]
        let files = [libc::SYS_open, libc::SYS_openat, libc::SYS_prctl];
        #[cfg(not(target_arch = "x86_64"))]
        let files = [libc::SYS_openat, libc::SYS_prctl];
        supervised(&files, answer, || {
            purge_scattered(&reserved(LinuxOptions::new()));
        });
    });
}

/// Frames are chosen before they are made accessible. If that is refused they are free again.
#[test]
fn frames_that_can_not_be_made_accessible_are_taken_later() {
    in_own_process(|| {
        let options = LinuxOptions::new().max_bytes(span()).frame_bytes(5000 * page_bytes());
        let linux = reserved(options);
        let linear = linux.geometry().linear_map.unwrap();
        let is_linear = |call: &Call| linear.contains(call.args[0] / page_bytes() as u64);
        refused(&[libc::SYS_mprotect], libc::ENOMEM, is_linear, |refusal| {
            for count in [1, 3000] {
                let refused = linux.take_frames(&mut vec![Frame(0); count]).unwrap_err();
                assert_eq!(refused.fault, PlatformFault::OutOfMemory);
            }
            refusal.end();
            take(&linux, 5000);
        });
    });
}

/// A large range is marked without a lock. Before it is accessible a child finds marks in pages
/// that count as closed.
#[test]
fn a_child_of_a_fork_in_the_middle_of_an_opening_opens_the_pages_itself() {
    in_own_process(|| {
        let Some(linux) = reserve(span(), GuardMeans::PteMarkers, Batches::Refused) else { return };
        let (range, forks) = (pages(&linux, 0, 8 * CHUNK_PAGES), Cell::new(0));
        let first = linux.take_run(CHUNK_PAGES, 1).unwrap();
        let frames: Vec<_> = (0..range.len()).map(|nth| first.plus(nth % CHUNK_PAGES)).collect();
        let answer = |call: &Call| {
            if call.args[..2] == [range.start(), range.len()].map(|pages| pages * page_bytes() as u64) {
                forks.set(forks.get() + 1);
                in_forked_child(|| {
                    let fresh = pages(&linux, 5, 3);
                    map(&linux, fresh);
                    assert_reads(&linux, fresh, 0);
                    true
                });
            }
            Answer::Go
        };
        supervised(&[libc::SYS_mprotect], answer, || map_frames(&linux, range, &frames));
        assert_eq!(forks.get(), 1);
    });
}

#[test]
fn without_process_vm_readv_peeking_goes_through_a_pipe() {
    in_own_process(|| {
        let linux = reserved(LinuxOptions::new());
        let area = pages(&linux, 3, 2);
        map(&linux, area);
        fill(&linux, area, 1);
        let is_meant = |_: &Call| true;
        refused(&[libc::SYS_process_vm_readv], libc::EPERM, is_meant, |_| {
            let (page, mut to) = (page_bytes(), vec![9; 3 * page_bytes()]);
            let start = page_ptr(&linux, area.start()).addr();
            assert_eq!(linux.read_nofault(start + 5, &mut to), 2 * page - 5);
            assert_eq!((to[0], to[page - 5], to[2 * page - 5]), (0, 1, 9));
            assert_eq!(linux.read_nofault(page_ptr(&linux, area.end()).addr(), &mut to), 0);
        });
    });
}
