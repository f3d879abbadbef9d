//! Memory that is locked (mlock(2), mlockall(2)): the kernel neither drops nor guards it. What is
//! freed is unlocked.

use super::exercise::{Owed, exercise};
use super::{check, finish, for_both_guards};
use crate::common::process::set_limit;
use crate::common::sandbox::{Refusal, refused};
use crate::common::*;
use libc::SYS_munlock;
use rustix::process::Resource;
use vmalloc::{PlatformFault, Request, Space, SpaceOptions};
use vmalloc_linux::{Error, GuardMeans, Linux, LinuxOptions, open};

const MIB: usize = 1 << 20;

pub(super) fn lock(addr: usize, pages: usize) {
    // SAFETY: locking changes nothing but where the pages are.
    let locked = unsafe { libc::mlock(std::ptr::with_exposed_provenance(addr), pages * page_bytes()) };
    assert_eq!(locked, 0, "{}", std::io::Error::last_os_error());
}

/// Locks all memory of this process, and returns true if it may.
fn lock_all(flags: libc::c_int) -> bool {
    // SAFETY: locking changes nothing but where the pages are.
    let locked = unsafe { libc::mlockall(flags) } == 0;
    if !locked {
        not_run("mlockall", std::io::Error::last_os_error());
    }
    locked
}

/// Allocates an area, and writes to each page.
fn filled(space: &Space<Linux>, pages: usize) -> usize {
    let addr = alloc(space, pages);
    fill_words(addr, pages);
    addr
}

/// Allocates, touches and frees much more than may be lazy: twice that has grown the program at
/// most.
fn assert_keeps_little(space: &Space<Linux>) {
    let before = status_bytes("VmRSS:");
    (0..100).for_each(|_| free(space, filled(space, 512)));
    let grown = status_bytes("VmRSS:").saturating_sub(before);
    assert!(grown <= 80 * MIB, "{} MiB", grown / MIB);
}

#[test]
fn a_locked_page_is_unlocked_when_its_area_is_purged() {
    in_own_process(|| {
        for_both_guards(|space| {
            let before = status_bytes("VmLck:");
            let (area, small) = (filled(space, 512), filled(space, 3));
            lock(area + 7 * page_bytes(), 1);
            lock(small, 3);
            [area, small].iter().for_each(|addr| free(space, *addr));
            assert_keeps_little(space);
            space.purge().unwrap();
            assert_eq!((space.stats().refused_areas, status_bytes("VmLck:")), (0, before));
            assert!(is_trap(area + 7 * page_bytes()) && is_trap(small));
            finish(space, Owed::default());
        });
    });
}

/// Locked pages stay so, right beside the unlocked ones.
#[test]
fn only_what_was_freed_is_unlocked() {
    in_own_process(|| {
        for_both_guards(|space| {
            let before = status_bytes("VmLck:");
            let areas: Vec<_> = (0..9).map(|_| filled(space, 4)).collect();
            areas.iter().for_each(|addr| lock(*addr, 4));
            areas.iter().step_by(2).for_each(|addr| free(space, *addr));
            space.purge().unwrap();
            assert_eq!(status_bytes("VmLck:") - before, 4 * 4 * page_bytes());
            // Chunks are opened elsewhere, and others come and go.
            drop(exercise(space));
            space.purge().unwrap();
            check(space);
            assert_eq!(status_bytes("VmLck:") - before, 4 * 4 * page_bytes());
            areas.iter().skip(1).step_by(2).for_each(|addr| {
                assert_eq!(get(addr + page_bytes()), !(addr + page_bytes()) as u8);
                free(space, *addr);
            });
            space.purge().unwrap();
            assert_eq!(status_bytes("VmLck:"), before);
            finish(space, Owed::default());
        });
    });
}

/// A part of locked areas that wait serves a larger request, and one of its pages becomes the guard
/// page: also where that is locked.
#[test]
fn locked_areas_that_wait_serve_a_larger_one_with_a_guard_page() {
    in_own_process(|| {
        for_both_guards(|space| {
            let areas = [(); 3].map(|()| filled(space, 400));
            let behind = filled(space, 1200);
            areas.iter().for_each(|addr| lock(*addr, 400));
            areas.iter().for_each(|addr| free(space, *addr));
            let do_wait = space.options().cache_bytes != Some(0);
            let larger = filled(space, 900);
            // Some of the spaces cache nothing.
            assert_eq!(larger == areas[0], do_wait, "{larger:#x}: {areas:x?}");
            assert!(is_trap(larger + 900 * page_bytes()));
            check(space);
            [larger, behind].iter().for_each(|addr| free(space, *addr));
            space.purge().unwrap();
            finish(space, Owed::default());
        });
    });
}

/// Runs `body` in a sandbox that does not know munlock(2), until `body` ends that.
fn never_unlocked(body: impl FnOnce(&Refusal) + Send) {
    refused(&[SYS_munlock], libc::EPERM, |_| true, body);
}

#[test]
fn where_nothing_can_be_unlocked_memory_goes_and_the_error_says_why() {
    in_own_process(|| {
        for_both_guards(|space| {
            never_unlocked(|refusal| {
                let areas: Vec<_> = (0..40).map(|_| filled(space, 400)).collect();
                areas.iter().for_each(|addr| lock(*addr, 400));
                let full = status_bytes("VmRSS:");
                areas.iter().for_each(|addr| free(space, *addr));
                let purged = space.purge();
                let left = status_bytes("VmRSS:") + 50 * MIB;
                assert!(left < full, "{full} bytes became {left}");
                let stats = space.stats();
                if space.platform().guard_means() == GuardMeans::PteMarkers {
                    let refused = cause(purged.unwrap_err());
                    assert_eq!((refused.fault, refused.code), (PlatformFault::Locked, libc::EPERM));
                    assert!(refused.to_string().contains("munlock"), "{refused}");
                    assert_eq!((stats.refused_areas, stats.lazy_areas), (40, 40));
                } else {
                    // Their pages are dropped without being unlocked, and that is all it takes.
                    purged.unwrap();
                }
                assert_keeps_little(space);
                check(space);
                refusal.end();
                finish(space, Owed::default());
            });
        });
    });
}

/// A real-time program locks what it has, before or after it has opened its space.
#[test]
fn a_program_that_locks_all_its_memory_goes_on() {
    in_own_process(|| {
        for flags in [libc::MCL_CURRENT, libc::MCL_CURRENT | libc::MCL_FUTURE] {
            for_both_guards(|space| {
                // Chunks that are open, some with somebody in them.
                let owner = filled(space, 3);
                exercise(space).owed.give(space);
                if !lock_all(flags) {
                    return;
                }
                assert_goes_on(space, owner);
                // SAFETY: no conditions.
                assert_eq!(unsafe { libc::munlockall() }, 0);
            });
        }
    });
}

fn assert_goes_on(space: &Space<Linux>, owner: usize) {
    assert_keeps_little(space);
    let done = exercise(space);
    assert!(done.refusals.is_empty(), "{:?}", done.refusals);
    space.purge().unwrap();
    done.owed.give(space);
    if space.platform().guard_means() == GuardMeans::PteMarkers {
        // Addresses are no memory: neither the chunks nor an area that is never touched.
        let before = status_bytes("VmRSS:");
        let huge = space.raw().alloc(&Request::new(1 << 29)).unwrap();
        let grown = status_bytes("VmRSS:").saturating_sub(before);
        assert!(grown <= 8 * MIB, "{} MiB", grown / MIB);
        free(space, huge);
    }
    free(space, owner);
    finish(space, Owed::default());
}

#[test]
fn a_program_that_locks_its_memory_in_advance_can_open_a_space() {
    in_own_process(|| {
        if !lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE) {
            return;
        }
        let before = status_bytes("VmRSS:");
        for_both_guards(|space| assert_goes_on(space, filled(space, 3)));
        let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
        exercise(&space).owed.give(&space);
        let grown = status_bytes("VmRSS:").saturating_sub(before);
        assert!(grown <= 200 * MIB, "{} MiB", grown / MIB);
    });
}

/// Frames that are given back give their memory back, locked or not.
#[test]
fn locked_frames_give_their_memory_back() {
    in_own_process(|| {
        let options = super::plain_options().frame_bytes(256 * MIB);
        let space = open(options, SpaceOptions::default()).unwrap();
        let frames = take(space.platform(), 195 * MIB / page_bytes());
        if !lock_all(libc::MCL_CURRENT) {
            return;
        }
        frames.iter().for_each(|frame| set_frame(space.platform(), *frame, 1));
        let full = status_bytes("RssShmem:");
        // Before Linux 6.13 the lock brings in frames that were never taken: no mark guards them.
        let others = full.saturating_sub(frames.len() * page_bytes());
        give(space.platform(), &frames);
        // Some is kept for those that come.
        let left = status_bytes("RssShmem:");
        assert!(full >= 190 * MIB && left <= 70 * MIB + others, "{full} bytes became {left}");
        // SAFETY: no conditions.
        assert_eq!(unsafe { libc::munlockall() }, 0);
        finish(&space, Owed::default());
    });
}

/// A child inherits no lock, but what its parent could not purge.
#[test]
fn a_child_of_a_program_with_locked_memory_goes_on() {
    in_own_process(|| {
        for guards in GuardMeans::all() {
            let (options, unmapping) = (super::options(guards), SpaceOptions::default().unmap_on_free());
            let Some(space) = super::space_in(Batches::Refused, options, unmapping) else { continue };
            never_unlocked(|refusal| {
                let (area, other) = (filled(&space, 200), filled(&space, 2));
                [area, other].iter().for_each(|addr| lock(*addr, 2));
                free(&space, area);
                assert_eq!(space.purge().is_err(), guards == GuardMeans::PteMarkers);
                in_forked_child(|| {
                    space.purge().unwrap();
                    free(&space, other);
                    finish(&space, Owed::default());
                    true
                });
                assert_eq!(space.stats().refused_areas, u64::from(guards == GuardMeans::PteMarkers));
                refusal.end();
                free(&space, other);
                finish(&space, Owed::default());
            });
        }
    });
}

/// Without the right to lock much: whatever the limit refuses is an error with a name.
#[test]
fn an_unprivileged_program_that_locks_in_advance_is_told() {
    in_own_process(|| {
        let spaces: Vec<_> = spaces(super::plain_options(), SpaceOptions::default()).collect();
        set_limit(Resource::Memlock, 1 << 20);
        // SAFETY: this process was made for it.
        unsafe {
            if libc::getuid() == 0 {
                assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
            }
        }
        if !lock_all(libc::MCL_FUTURE) {
            return;
        }
        let refused = open(LinuxOptions::new(), SpaceOptions::default());
        assert!(matches!(refused, Err(Error::Reserve(_))), "{refused:?}", refused = refused.err());
        for space in spaces {
            let done = exercise(&space);
            assert!(done.worked > 20);
            done.refused_by(|cause| cause.fault == PlatformFault::OutOfMemory);
            // SAFETY: no conditions.
            assert_eq!(unsafe { libc::munlockall() }, 0);
            finish(&space, done.owed);
        }
    });
}
