//! Calls that the kernel refuses, does in part, or interrupts.

use super::exercise::{Owed, exercise, fill, is_inside};
use super::sandbox::{Answer, Call, supervised};
use super::{PAGE, check, everywhere, everywhere_in_batches, finish, for_both_guards, for_both_guards_in};
use crate::common::{Batches, in_own_process, is_trap};
use libc::{SYS_madvise, SYS_process_madvise};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use vmalloc::{AllocError, CodeBuffer, Request, Space, SpaceOptions};
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

/// Runs `body`, in which all advice about the space is answered so until `body` ends that.
fn advise_answered(
    space: &Space<Linux>,
    answer: impl Fn(&Call) -> Answer,
    body: impl FnOnce(&AtomicBool) + Send,
) {
    let is_on = AtomicBool::new(true);
    let answer = |call: &Call| match is_on.load(Ordering::SeqCst) && is_about(space, call) {
        true => answer(call),
        false => Answer::Go,
    };
    supervised(&ADVISING, answer, || body(&is_on));
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
                advise_answered(
                    space,
                    |_| Answer::Fail(error),
                    |is_on| {
                        let done = exercise(space);
                        assert!(!done.refusals.is_empty());
                        let codes = done.refusals.iter().map(|refusal| refusal.code);
                        // A call that is interrupted for ever is short of something.
                        let told = if error == libc::EINTR { libc::EAGAIN } else { error };
                        assert!(codes.clone().all(|code| code == told), "{:?}", codes.collect::<Vec<_>>());
                        is_on.store(false, Ordering::SeqCst);
                        finish(space, done.owed);
                    },
                );
                before.owed.give(space);
            });
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
        let space = &*space;
        let is_on = AtomicBool::new(false);
        let answer = |call: &Call| {
            let is_ours = is_on.load(Ordering::SeqCst) && is_inside(space, call.args[0]);
            match (call.number, call.args[2]) {
                (libc::SYS_mprotect, 0) | (libc::SYS_madvise, GUARD_INSTALL) if is_ours => {
                    Answer::Fail(libc::ENOMEM)
                }
                _ => Answer::Go,
            }
        };
        supervised(&[libc::SYS_mprotect, SYS_madvise], answer, || {
            const PAGES: usize = 10 * vmalloc_linux::CHUNK_PAGES as usize;
            let addr = space.raw().alloc(&Request::new(PAGES * PAGE)).unwrap();
            fill(addr, 1);
            is_on.store(true, Ordering::SeqCst);
            // SAFETY: the area is the test's, and nothing uses it any more.
            unsafe { space.raw().free(addr) }.unwrap();
            assert!(space.purge().is_err());
            assert_eq!(space.stats().refused_areas, 1);
            is_on.store(false, Ordering::SeqCst);
            space.purge().unwrap();
            assert_eq!(space.stats().refused_areas, 0);
            let trapping = [0, 1, PAGES / 2, PAGES - 1].map(|page| is_trap(addr + page * PAGE));
            assert_eq!(trapping, [true; 4]);
            finish(space, Owed::default());
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
                let refuse = |call: &Call| match call.number {
                    libc::SYS_process_madvise => Answer::Fail(error),
                    _ => Answer::Go,
                };
                advise_answered(space, refuse, |_| finish(space, Owed::default()));
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
                advise_answered(space, interrupt, |_| finish(space, Owed::default()));
            });
        }
    });
}

/// Does what a call asks for, but only up to `bytes`, and says so.
fn partly(call: &Call, bytes: impl Fn(usize) -> usize) -> Answer {
    let (mut runs, advice) = advised(call);
    let mut left = bytes(runs.iter().map(|run| run.iov_len).sum()) / PAGE * PAGE;
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
        let parts: [fn(usize) -> usize; 4] = [|_| PAGE, |bytes| bytes / 2, |bytes| bytes - PAGE, |_| 0];
        for part in parts {
            everywhere_in_batches(|space| {
                let areas: Vec<_> = (0..40)
                    .map(|nth| space.raw().alloc(&Request::new((1 + nth % 5) * PAGE)).unwrap())
                    .collect();
                areas.iter().for_each(|addr| fill(*addr, 1));
                // Every other one, so that nothing is joined.
                let (freed, kept): (Vec<_>, Vec<_>) =
                    areas.iter().enumerate().partition(|(nth, _)| nth % 2 == 0);
                let answer = |call: &Call| match call.number {
                    libc::SYS_process_madvise => partly(call, part),
                    _ => Answer::Go,
                };
                advise_answered(space, answer, |_| {
                    for (_, addr) in &freed {
                        // SAFETY: the area is the test's.
                        unsafe { space.raw().free(**addr) }.unwrap();
                    }
                    space.purge().unwrap();
                    freed.iter().for_each(|(_, addr)| assert!(is_trap(**addr)));
                    kept.iter().for_each(|(_, addr)| assert!(!is_trap(**addr)));
                });
                for (_, addr) in kept {
                    // SAFETY: as above.
                    unsafe { space.raw().free(*addr) }.unwrap();
                }
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
                let areas: Vec<_> =
                    (0..50).map(|_| space.raw().alloc(&Request::new(300 * PAGE)).unwrap()).collect();
                areas.iter().for_each(|addr| fill(*addr, 300));
                let stuck = areas[20];
                let refuse = |call: &Call| {
                    let inside = |run: &libc::iovec| {
                        run.iov_base.addr() < stuck + 300 * PAGE && stuck < run.iov_base.addr() + run.iov_len
                    };
                    match advised(call).0.iter().any(inside) {
                        true => Answer::Fail(error),
                        false => Answer::Go,
                    }
                };
                advise_answered(space, refuse, |is_on| {
                    for addr in &areas {
                        // SAFETY: the area is the test's.
                        unsafe { space.raw().free(*addr) }.unwrap();
                    }
                    for _ in 0..2 {
                        assert_eq!(space.purge().unwrap_err().code, error);
                        let stats = space.stats();
                        assert_eq!((stats.lazy_areas, stats.refused_areas, stats.refused_pages), (1, 1, 301));
                        assert_eq!(stats.free_pages, stats.span_pages - 301);
                        check(space);
                    }
                    let others = areas.iter().filter(|addr| **addr != stuck);
                    others.for_each(|addr| assert!(is_trap(*addr)));
                    is_on.store(false, Ordering::SeqCst);
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
        let calls = [libc::SYS_mprotect, SYS_madvise];
        for refused in calls {
            for error in [libc::ENOMEM, libc::EPERM, libc::EACCES] {
                for_both_guards(|space| {
                    // It has no chunks.
                    if space.platform().guard_means() == GuardMeans::Userfault {
                        return;
                    }
                    let is_on = AtomicBool::new(true);
                    let answer = |call: &Call| match call.number == refused && is_inside(space, call.args[0])
                    {
                        // Guards by mprotect(2) are made without advice.
                        true if is_on.load(Ordering::SeqCst) => Answer::Fail(error),
                        _ => Answer::Go,
                    };
                    supervised(&calls, answer, || {
                        let made = space.raw().alloc(&Request::new(5 * PAGE));
                        if refused == SYS_madvise && space.platform().guard_means() == GuardMeans::Mprotect {
                            // SAFETY: the area is the test's.
                            unsafe { space.raw().free(made.unwrap()) }.unwrap();
                        } else {
                            let Err(AllocError::Unbacked(told)) = made else { panic!("{made:?}") };
                            assert_eq!(told.cause.code, error);
                            assert_eq!(space.stats().busy_areas, 0);
                        }
                        check(space);
                        is_on.store(false, Ordering::SeqCst);
                        finish(space, Owed::default());
                    });
                });
            }
        }
    });
}

/// Without a file in memory there are no frames, and everything else works.
#[test]
fn without_memfd_there_are_areas_and_no_frames() {
    in_own_process(|| {
        for error in [libc::EPERM, libc::ENOSYS, libc::EMFILE, libc::ENOMEM] {
            for_both_guards(|space| {
                let is_on = AtomicBool::new(true);
                let refuse = |_: &Call| match is_on.load(Ordering::SeqCst) {
                    true => Answer::Fail(error),
                    false => Answer::Go,
                };
                supervised(&[libc::SYS_memfd_create], refuse, || {
                    let done = exercise(space);
                    assert!(done.worked > 20 && done.refusals.len() == 3, "{:?}", done.refusals);
                    assert!(
                        done.refusals
                            .iter()
                            .all(|refusal| refusal.call == "memfd_create" && refusal.code == error)
                    );
                    is_on.store(false, Ordering::SeqCst);
                    finish(space, done.owed);
                });
            });
        }
    });
}

/// Windows and moved areas are made by mremap(2), and undone by mmap(2).
#[test]
fn mappings_that_are_refused_are_errors_and_lose_nothing() {
    in_own_process(|| {
        for refused in [libc::SYS_mremap, libc::SYS_mmap] {
            for error in [libc::ENOMEM, libc::EPERM, libc::EAGAIN] {
                for_both_guards_in(SpaceOptions::default(), |space| {
                    let before = exercise(space);
                    let is_on = AtomicBool::new(true);
                    let answer = |call: &Call| {
                        let place = if refused == libc::SYS_mremap { call.args[4] } else { call.args[0] };
                        match is_on.load(Ordering::SeqCst) && is_inside(space, place) {
                            true => Answer::Fail(error),
                            false => Answer::Go,
                        }
                    };
                    supervised(&[refused], answer, || {
                        let done = exercise(space);
                        assert!(!done.refusals.is_empty());
                        assert!(
                            done.refusals.iter().all(|refusal| refusal.code == error),
                            "{:?}",
                            done.refusals
                        );
                        is_on.store(false, Ordering::SeqCst);
                        finish(space, done.owed);
                    });
                    before.owed.give(space);
                });
            }
        }
    });
}

/// Uses all that a space is opened for, and all that it may put off: growth that moves, frames,
/// protections, areas that the program has changed.
fn use_all(space: &std::sync::Arc<Space<Linux>>) {
    finish(space, Owed::default());
    let first = space.raw().alloc(&Request::new(3 * PAGE)).unwrap();
    assert!(is_trap(first + 3 * PAGE), "the guard behind the first area is open");
    fill(first, 3);
    let _beside = space.buffer(PAGE).unwrap();
    // SAFETY: the areas are the test's.
    unsafe {
        let moved = space.raw().realloc(first, &Request::new(900 * PAGE)).unwrap();
        space.raw().free_altered(moved).unwrap();
    }
    let code = CodeBuffer::new(space.clone(), &Request::new(PAGE)).unwrap();
    drop(code.seal().unwrap());
    let shared = space.raw().alloc_shared(&Request::new(2 * PAGE)).unwrap();
    // SAFETY: as above.
    unsafe { space.raw().free(shared) }.unwrap();
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
                let options = super::LinuxOptions::new().max_bytes(super::SPAN).drain_thread(false);
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
