//! Calls that the kernel refuses, does in part, or interrupts.

use super::exercise::{Done, Owed, exercise, is_inside};
use super::{check, everywhere, everywhere_in_batches, finish, for_both_guards, for_both_guards_in};
use crate::common::sandbox::{Answer, Call, Refusal, refused, supervised};
use crate::common::{Batches, alloc, cause, fill_words, free, in_own_process, is_trap, page_bytes};
use libc::{SYS_madvise, SYS_process_madvise};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{AllocError, CodeBuffer, Request, Resize, Space, SpaceOptions};
use vmalloc_linux::{GuardMeans, Linux};

const GUARD_INSTALL: u64 = 102;
const ADVISING: [libc::c_long; 2] = [SYS_madvise, SYS_process_madvise];

/// The runs that a call advises about, and what it advises.
fn advised(call: &Call) -> (Vec<libc::iovec>, u64) {
    if call.number == SYS_madvise {
        let iov_base = std::ptr::with_exposed_provenance_mut(call.args[0] as usize);
        return (vec![libc::iovec { iov_base, iov_len: call.args[1] as usize }], call.args[2]);
    }
    let first = std::ptr::with_exposed_provenance::<libc::iovec>(call.args[1] as usize);
    // SAFETY: the caller waits for the answer, and has so many there.
    (unsafe { std::slice::from_raw_parts(first, call.args[2] as usize) }.to_vec(), call.args[3])
}

fn is_about(space: &Space<Linux>, call: &Call) -> bool {
    advised(call).0.iter().any(|run| is_inside(space, run.iov_base.addr() as u64))
}

/// Runs `body`, in which all advice about the space is answered so.
fn advise_answered(space: &Space<Linux>, answer: impl Fn(&Call) -> Answer, body: impl FnOnce() + Send) {
    let answer = |call: &Call| if is_about(space, call) { answer(call) } else { Answer::Go };
    supervised(&ADVISING, answer, body);
}

/// Runs `body`, in which advice about the space that is meant fails until `body` ends that.
fn advice_refused(
    space: &Space<Linux>,
    error: i32,
    is_meant: impl Fn(&Call) -> bool,
    body: impl FnOnce(&Refusal) + Send,
) {
    refused(&ADVISING, error, |call| is_about(space, call) && is_meant(call), body);
}

/// Exercises a space while calls are refused, of which each error tells. Then all is whole again.
fn each_refusal_is_told(
    space: &Space<Linux>,
    calls: &[libc::c_long],
    error: i32,
    is_meant: impl Fn(&Call) -> bool,
) -> Done {
    refused(calls, error, is_meant, |refusal| {
        let mut done = exercise(space);
        // A call that is interrupted for ever is short of something.
        let told = if error == libc::EINTR { libc::EAGAIN } else { error };
        assert!(!done.refusals.is_empty());
        done.refused_by(|cause| cause.code == told);
        refusal.end();
        finish(space, std::mem::take(&mut done.owed));
        done
    })
}

/// Everything that is advised fails, with each error that a kernel or a sandbox may give.
#[test]
fn advice_that_is_refused_keeps_areas_back_until_it_is_not() {
    in_own_process(|| {
        let errors =
            [libc::EINVAL, libc::ENOMEM, libc::EAGAIN, libc::EPERM, libc::ENOSYS, libc::EIO, libc::EINTR];
        for error in errors {
            for_both_guards_in(SpaceOptions::default().unmap_on_free(), |space| {
                // Open chunks with something in them, and something freed.
                let before = exercise(space);
                assert!(before.refusals.is_empty());
                each_refusal_is_told(space, &ADVISING, error, |call| is_about(space, call));
                before.owed.give(space);
            });
        }
    });
}

/// Without a file in memory there are no frames, and everything else works.
#[test]
fn without_memfd_there_are_areas_and_no_frames() {
    in_own_process(|| {
        for error in [libc::EPERM, libc::ENOSYS, libc::EMFILE, libc::ENOMEM] {
            for_both_guards(|space| {
                let done = each_refusal_is_told(space, &[libc::SYS_memfd_create], error, |_| true);
                assert!(done.worked > 20 && done.refusals.len() == 3, "{:?}", done.refusals);
                done.refused_by(|cause| cause.call == "memfd_create");
            });
        }
    });
}

/// Windows and moved areas are made by mremap(2), and undone by mmap(2).
#[test]
fn mappings_that_are_refused_are_errors_and_lose_nothing() {
    in_own_process(|| {
        for (call, place) in [(libc::SYS_mremap, 4), (libc::SYS_mmap, 0)] {
            for error in [libc::ENOMEM, libc::EPERM, libc::EAGAIN] {
                for_both_guards_in(SpaceOptions::default(), |space| {
                    let before = exercise(space);
                    each_refusal_is_told(space, &[call], error, |call| is_inside(space, call.args[place]));
                    before.owed.give(space);
                });
            }
        }
    });
}

/// A large area is made inaccessible, or else marked. Where the kernel refuses both, the area stays
/// back until it traps.
#[test]
fn a_large_area_that_can_be_neither_closed_nor_marked_traps_after_the_next_purge() {
    in_own_process(|| {
        let (options, unmapping) =
            (super::options(GuardMeans::PteMarkers), SpaceOptions::default().unmap_on_free());
        let Some(space) = super::space_in(Batches::Refused, options, unmapping) else { return };
        const PAGES: usize = 10 * vmalloc_linux::CHUNK_PAGES as usize;
        let addr = alloc(&space, PAGES);
        fill_words(addr, 1);
        let is_meant = |call: &Call| {
            is_inside(&space, call.args[0])
                && [(libc::SYS_mprotect, 0), (SYS_madvise, GUARD_INSTALL)]
                    .contains(&(call.number, call.args[2]))
        };
        refused(&[libc::SYS_mprotect, SYS_madvise], libc::ENOMEM, is_meant, |refusal| {
            free(&space, addr);
            assert!(space.purge().is_err());
            assert_eq!(space.stats().refused_areas, 1);
            refusal.end();
            space.purge().unwrap();
            assert_eq!(space.stats().refused_areas, 0);
            let trapping = [0, 1, PAGES / 2, PAGES - 1].map(|page| is_trap(addr + page * page_bytes()));
            assert_eq!(trapping, [true; 4]);
            finish(&space, Owed::default());
        });
    });
}

/// Calls for many runs fail, and those for single runs don't.
#[test]
fn batches_that_are_refused_are_replaced_by_single_calls() {
    in_own_process(|| {
        let errors =
            [libc::EINVAL, libc::ENOMEM, libc::EAGAIN, libc::EPERM, libc::ENOSYS, libc::EBADF, libc::EINTR];
        for error in errors {
            everywhere_in_batches(|space| {
                let is_batch = |call: &Call| call.number == SYS_process_madvise;
                advice_refused(space, error, is_batch, |_| finish(space, Owed::default()));
            });
        }
    });
}

/// Each call fails the first time, or a few times, as when a signal comes or memory is short for a
/// moment.
#[test]
fn advice_that_is_interrupted_is_repeated() {
    in_own_process(|| {
        for (error, times) in [(libc::EINTR, 1), (libc::EINTR, 5), (libc::EAGAIN, 1), (libc::EAGAIN, 5)] {
            everywhere(|space| {
                let left = Cell::new(times);
                let interrupt = |_: &Call| match left.get() {
                    0 => {
                        left.set(times);
                        Answer::Go
                    }
                    some => {
                        left.set(some - 1);
                        Answer::Fail(error)
                    }
                };
                advise_answered(space, interrupt, || finish(space, Owed::default()));
            });
        }
    });
}

/// Does what a call asks for, but only up to `bytes`, and says so.
fn partly(call: &Call, bytes: impl Fn(usize) -> usize) -> Answer {
    let (mut runs, advice) = advised(call);
    let mut left = bytes(runs.iter().map(|run| run.iov_len).sum()) / page_bytes() * page_bytes();
    let done = left;
    for run in &mut runs {
        run.iov_len = run.iov_len.min(left);
        left -= run.iov_len;
        // SAFETY: what the caller asks for, who waits.
        let answer = unsafe { libc::madvise(run.iov_base, run.iov_len, advice as libc::c_int) };
        assert_eq!(answer, 0);
    }
    Answer::Return(done as i64)
}

/// A vector is done up to its first page, up to the middle, up to its last page.
#[test]
fn batches_that_are_done_in_part_are_done_to_the_end() {
    in_own_process(|| {
        let parts: [fn(usize) -> usize; 4] =
            [|_| page_bytes(), |bytes| bytes / 2, |bytes| bytes - page_bytes(), |_| 0];
        for part in parts {
            everywhere_in_batches(|space| {
                let areas: Vec<_> = (0..40).map(|nth| alloc(space, 1 + nth % 5)).collect();
                areas.iter().for_each(|addr| fill_words(*addr, 1));
                // Every other one, so that nothing is joined.
                let (freed, kept): (Vec<_>, Vec<_>) =
                    areas.iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
                let answer = |call: &Call| match call.number {
                    libc::SYS_process_madvise => partly(call, part),
                    _ => Answer::Go,
                };
                advise_answered(space, answer, || {
                    freed.iter().for_each(|(_, addr)| free(space, **addr));
                    space.purge().unwrap();
                    freed.iter().for_each(|(_, addr)| assert!(is_trap(**addr)));
                    kept.iter().for_each(|(_, addr)| assert!(!is_trap(**addr)));
                });
                kept.iter().for_each(|(_, addr)| free(space, **addr));
                finish(space, Owed::default());
            });
        }
    });
}

/// The kernel refuses one range of many.
#[test]
fn advice_that_is_refused_for_one_area_keeps_that_one_back() {
    in_own_process(|| {
        for error in [libc::EINVAL, libc::EIO] {
            everywhere(|space| {
                let areas: Vec<_> = (0..50).map(|_| alloc(space, 300)).collect();
                areas.iter().for_each(|addr| fill_words(*addr, 300));
                let stuck = areas[20];
                let is_meant = |call: &Call| {
                    let inside = |run: &libc::iovec| {
                        run.iov_base.addr() < stuck + 300 * page_bytes()
                            && stuck < run.iov_base.addr() + run.iov_len
                    };
                    advised(call).0.iter().any(inside)
                };
                advice_refused(space, error, is_meant, |refusal| {
                    areas.iter().for_each(|addr| free(space, *addr));
                    for _ in 0..2 {
                        assert_eq!(cause(space.purge().unwrap_err()).code, error);
                        let stats = space.stats();
                        assert_eq!((stats.lazy_areas, stats.refused_areas, stats.refused_pages), (1, 1, 301));
                        assert_eq!(stats.free_pages, stats.span_pages - 301);
                        check(space);
                    }
                    let others = areas.iter().filter(|addr| **addr != stuck);
                    others.for_each(|addr| assert!(is_trap(*addr)));
                    refusal.end();
                    finish(space, Owed::default());
                });
            });
        }
    });
}

/// Chunks are opened by marks and mprotect(2): whatever refuses, the allocation says so, and the
/// addresses are as before.
#[test]
fn chunks_that_can_not_be_opened_are_an_error_and_stay_closed() {
    in_own_process(|| {
        for (call, error) in [libc::SYS_mprotect, SYS_madvise]
            .into_iter()
            .flat_map(|call| [libc::ENOMEM, libc::EPERM, libc::EACCES].map(|error| (call, error)))
        {
            for_both_guards(|space| {
                // It has no chunks.
                if space.platform().guard_means() == GuardMeans::Userfault {
                    return;
                }
                let is_meant = |call: &Call| is_inside(space, call.args[0]);
                refused(&[call], error, is_meant, |refusal| {
                    let made = space.raw().alloc(&Request::new(5 * page_bytes()));
                    // Guards by mprotect(2) are made without advice.
                    if call == SYS_madvise && space.platform().guard_means() == GuardMeans::Mprotect {
                        free(space, made.unwrap());
                    } else {
                        let Err(AllocError::Unbacked(told)) = made else { panic!("{made:?}") };
                        assert_eq!((told.cause.code, space.stats().busy_areas), (error, 0));
                    }
                    check(space);
                    refusal.end();
                    finish(space, Owed::default());
                });
            });
        }
    });
}

/// Uses all that a space is opened for, and all that it may put off: growth that moves, frames,
/// protections, areas that the program has changed.
fn use_all(space: &std::sync::Arc<Space<Linux>>) {
    finish(space, Owed::default());
    let first = alloc(space, 3);
    assert!(is_trap(first + 3 * page_bytes()), "the guard behind the first area is open");
    fill_words(first, 3);
    let _beside = space.buffer(page_bytes()).unwrap();
    // SAFETY: the areas are the test's.
    unsafe {
        let moved = space.raw().realloc(first, &Resize::new(900 * page_bytes())).unwrap();
        space.raw().free_altered(moved).unwrap();
    }
    let code = CodeBuffer::new(space.clone(), &Request::new(page_bytes())).unwrap();
    drop(code.seal().unwrap());
    let shared = space.raw().alloc_shared(&Request::new(2 * page_bytes())).unwrap();
    free(space, shared);
    space.purge().unwrap();
}

/// Each call that opening makes is refused once, for want of memory at the moment or for good. What
/// is opened all the same can do all that others can.
#[test]
fn a_refusal_while_a_space_is_opened_ends_that_or_takes_nothing_away() {
    in_own_process(|| {
        let calls = [
            libc::SYS_mmap,
            libc::SYS_mprotect,
            SYS_madvise,
            SYS_process_madvise,
            libc::SYS_ioctl,
            libc::SYS_userfaultfd,
            libc::SYS_munmap,
        ];
        for (refused, traps) in calls.into_iter().flat_map(|call| [(call, false), (call, true)]) {
            for error in [libc::ENOMEM, libc::EPERM] {
                let options = super::LinuxOptions::new().max_bytes(super::span()).drain_thread(false);
                let space = SpaceOptions::default().unmap_on_free().trap_on_free(traps);
                for nth in 1.. {
                    let (count, is_on) = (Cell::new(0), AtomicBool::new(true));
                    let answer = |call: &Call| {
                        // The heap's own mappings are not those of the space.
                        let is_heap =
                            call.number == libc::SYS_mmap && call.args[2] == 3 && call.args[3] == 0x22;
                        if !is_on.load(Ordering::SeqCst) || is_heap {
                            return Answer::Go;
                        }
                        count.set(count.get() + 1);
                        if count.get() == nth { Answer::Fail(error) } else { Answer::Go }
                    };
                    supervised(&[refused], answer, || {
                        let opened = vmalloc_linux::open(options, space);
                        is_on.store(false, Ordering::SeqCst);
                        match opened {
                            Ok(space) => use_all(&space),
                            Err(error) => eprintln!("call {nth}: {error}"),
                        }
                    });
                    if count.get() < nth {
                        assert!(nth > 1 || refused != libc::SYS_mmap, "opening maps nothing");
                        break;
                    }
                }
            }
        }
    });
}
