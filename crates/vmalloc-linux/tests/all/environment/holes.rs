//! Kernels that remove a mapping, and then refuse to map there: a filter does so here. In the hole
//! that they leave, other owners map.

use super::exercise::{exercise, is_inside};
use super::{finish, for_both_guards_in};
use crate::common::process::{Thread, handle};
use crate::common::sandbox::{Answer, Call, supervised};
use crate::common::{give, in_forked_child, in_own_process, page_bytes, range_of, take};
use libc::{SYS_mmap, SYS_mremap, SYS_remap_file_pages, c_long, c_void};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use vmalloc::{MapFrames, PageRange, Platform, Protection, Request, Space, SpaceOptions};
use vmalloc_linux::{GuardMeans, Linux};

/// The part of a hole in which another owner maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    Nothing,
    Begin,
    Middle,
    All,
}

const THEIRS: u8 = 77;

/// The range that a call is about to replace.
fn replaced(call: &Call) -> Option<Range<usize>> {
    let [first, second, third, fourth, fifth, _] = call.args;
    let (start, bytes, is_fixed) = match call.number {
        number if number == SYS_mremap => (fifth, third, fourth & libc::MREMAP_FIXED as u64 != 0),
        number if number == SYS_mmap => (first, second, fourth & libc::MAP_FIXED as u64 != 0),
        _ => (first, second, true),
    };
    // A register that is no argument of the call holds anything.
    is_fixed.then(|| start as usize..(start + bytes) as usize)
}

fn their_part(hole: &Range<usize>, taken: Taken) -> Option<Range<usize>> {
    match taken {
        Taken::Nothing => None,
        Taken::Begin => Some(hole.start..hole.start + page_bytes()),
        Taken::Middle => {
            let start = hole.start + hole.len() / page_bytes() / 2 * page_bytes();
            Some(start..start + page_bytes())
        }
        Taken::All => Some(hole.clone()),
    }
}

/// Maps memory of another owner where nothing is mapped.
fn map_theirs(part: &Range<usize>) {
    let (wish, rights) = (with_exposed_provenance_mut(part.start), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: it replaces nothing, and the bytes written are those of the new mapping.
    unsafe {
        let made = libc::mmap(wish, part.len(), rights, flags, -1, 0);
        assert_eq!(made, wish, "{}", std::io::Error::last_os_error());
        made.cast::<u8>().write_bytes(THEIRS, part.len());
    }
}

fn unmap(part: &Range<usize>) {
    let start = with_exposed_provenance_mut::<c_void>(part.start);
    // SAFETY: the test plays the kernel, or the other owner.
    assert_eq!(unsafe { libc::munmap(start, part.len()) }, 0);
}

/// Checks that every byte of the other owners is as they wrote it.
fn check_theirs(parts: &[Range<usize>]) {
    for part in parts {
        // SAFETY: the mapping is another owner's, which the test plays.
        let bytes =
            unsafe { std::slice::from_raw_parts(with_exposed_provenance_mut(part.start), part.len()) };
        assert!(bytes.iter().all(|byte: &u8| *byte == THEIRS), "memory of another owner at {part:x?}");
    }
}

/// Checks that each page of the span is mapped, by whomever.
fn check_mapped(space: &Space<Linux>) {
    let geometry = space.platform().geometry();
    let mut reached = (geometry.span.start() << geometry.page_shift) as usize;
    let end = (geometry.span.end() << geometry.page_shift) as usize;
    for range in std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter_map(range_of) {
        if range.start <= reached {
            reached = reached.max(range.end);
        }
    }
    assert!(reached >= end, "nothing is mapped at {reached:#x}");
}

/// Maps other frames behind the same pages again and again, whatever is refused.
fn exchange_frames(space: &Space<Linux>) {
    let Ok(area) = space.raw().reserve(&Request::new(8 * page_bytes())) else { return };
    let frames = take(space.platform(), 16);
    for eight in frames.chunks(8).cycle().take(6) {
        let range = PageRange::from_len((area / page_bytes()) as u64, 8).unwrap();
        // SAFETY: the area and the frames are the test's.
        let _ = unsafe { space.platform().map_frames(range, eight, Protection::ReadWrite) };
    }
    // SAFETY: nothing uses the area any more.
    unsafe { space.raw().unreserve(area) }.unwrap();
    if space.purge().is_ok() {
        give(space.platform(), &frames);
    }
}

/// A kernel that looks before it removes a mapping, as from 6.17 on, or one that does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kernel {
    LooksFirst,
    RemovesFirst,
}

/// Exercises a space in a child, while that kernel refuses calls of that number and leaves holes.
fn in_holes(kernel: Kernel, number: c_long, error: i32, taken: Taken, options: SpaceOptions) {
    for_both_guards_in(options, |space| {
        in_forked_child(|| {
            let (is_on, theirs) = (AtomicBool::new(false), RefCell::new(Vec::new()));
            let holes = AtomicBool::new(false);
            let answer = |call: &Call| {
                let Some(hole) = replaced(call) else { return Answer::Go };
                if !is_inside(space, hole.start as u64) {
                    // The library tries a move of two mappings, once.
                    let is_tried = call.number == SYS_mremap && hole.len() == 2 * page_bytes();
                    if kernel == Kernel::LooksFirst || !is_tried {
                        return Answer::Go;
                    }
                    unmap(&hole);
                    return Answer::Fail(libc::EFAULT);
                }
                if call.number != number || !is_on.load(Ordering::SeqCst) {
                    return Answer::Go;
                }
                unmap(&hole);
                holes.store(true, Ordering::SeqCst);
                let part = their_part(&hole, taken);
                if let Some(part) = part.filter(|part| number != SYS_mmap || *part != hole) {
                    map_theirs(&part);
                    theirs.borrow_mut().push(part);
                }
                Answer::Fail(error)
            };
            let owed = supervised(&[SYS_mremap, SYS_mmap, SYS_remap_file_pages], answer, || {
                let before = exercise(space);
                is_on.store(true, Ordering::SeqCst);
                let done = exercise(space);
                exchange_frames(space);
                is_on.store(false, Ordering::SeqCst);
                [before.owed, done.owed]
            });
            assert!(holes.into_inner(), "the call is never made");
            let theirs = theirs.into_inner();
            check_theirs(&theirs);
            check_mapped(space);
            // Their pages are not handed out, whatever is allocated.
            let beside = exercise(space);
            check_theirs(&theirs);
            theirs.iter().for_each(unmap);
            space.purge().unwrap();
            owed.into_iter().for_each(|owed| owed.give(space));
            finish(space, beside.owed);
            check_mapped(space);
            true
        });
    });
}

fn in_all_holes(number: c_long, ways: &[Taken]) {
    let cases =
        [(libc::EFAULT, SpaceOptions::default()), (libc::ENOMEM, SpaceOptions::default().unmap_on_free())];
    for (taken, kernel) in
        ways.iter().flat_map(|taken| [Kernel::LooksFirst, Kernel::RemovesFirst].map(|it| (*taken, it)))
    {
        for (error, options) in cases {
            eprintln!("{kernel:?}; {taken:?} of each hole is taken, error {error}");
            in_holes(kernel, number, error, taken, options);
        }
    }
}

#[test]
fn a_hole_that_a_refused_move_leaves_is_mapped_again_and_other_owners_in_it_are_left_alone() {
    in_own_process(|| in_all_holes(SYS_mremap, &[Taken::Nothing, Taken::Begin, Taken::Middle, Taken::All]));
}

#[test]
fn a_hole_that_refused_frames_leave_is_mapped_again_and_other_owners_in_it_are_left_alone() {
    in_own_process(|| {
        in_all_holes(SYS_remap_file_pages, &[Taken::Nothing, Taken::Begin, Taken::Middle, Taken::All]);
    });
}

#[test]
fn a_hole_that_refused_fresh_memory_leaves_is_mapped_again_and_other_owners_in_it_are_left_alone() {
    in_own_process(|| in_all_holes(SYS_mmap, &[Taken::Nothing, Taken::Begin, Taken::Middle]));
}

/// Stops the program before each system call that may change the span, and looks: each page is
/// mapped at every moment, so that no mapping of another owner gets between two steps.
#[test]
fn each_page_of_the_span_is_mapped_before_every_system_call() {
    in_own_process(|| {
        let calls = [
            SYS_mmap,
            SYS_mremap,
            SYS_remap_file_pages,
            libc::SYS_munmap,
            libc::SYS_mprotect,
            libc::SYS_madvise,
            libc::SYS_process_madvise,
            libc::SYS_ioctl,
        ];
        for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
            for_both_guards_in(options, |space| {
                let before = exercise(space);
                let stops = Cell::new(0);
                let answer = |_: &Call| {
                    check_mapped(space);
                    stops.set(stops.get() + 1);
                    Answer::Go
                };
                let owed = supervised(&calls, answer, || {
                    let done = exercise(space);
                    exchange_frames(space);
                    done.owed
                });
                assert!(stops.get() > 100, "{} system calls were seen", stops.get());
                before.owed.give(space);
                finish(space, owed);
            });
        }
    });
}

extern "C" fn on_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

/// Stops before each step of a move. Another thread allocates, frees and purges then, forks, and
/// sends the moving thread a signal.
#[test]
fn threads_forks_and_signals_act_between_the_steps_of_a_move() {
    in_own_process(|| {
        handle(libc::SIGUSR1, on_signal, libc::SA_RESTART);
        for options in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free()] {
            for_both_guards_in(options, |space| {
                let (stops, moving) = (Cell::new(0), OnceLock::new());
                let answer = |_: &Call| {
                    stops.set(stops.get() + 1);
                    act_beside(space, stops.get(), *moving.get().unwrap());
                    Answer::Go
                };
                supervised(&[SYS_mremap], answer, || {
                    moving.set(Thread::current()).unwrap();
                    let mut areas: Vec<_> =
                        (0..12).map(|_| space.buffer(300 * page_bytes()).unwrap()).collect();
                    for (nth, area) in areas.iter_mut().enumerate() {
                        area.fill(nth as u8 + 1);
                        area.resize((700 + nth) * page_bytes()).unwrap();
                        assert!(
                            area[..300 * page_bytes()].iter().all(|byte| *byte == nth as u8 + 1),
                            "area {nth}"
                        );
                    }
                });
                let is_moved = space.platform().guard_means() != GuardMeans::Userfault;
                assert!(!is_moved || stops.get() > 12, "{} stops", stops.get());
                space.purge().unwrap();
                space.verify().unwrap();
                assert_eq!(space.stats().busy_areas, 0);
            });
        }
        assert_ne!(SIGNALS.load(Ordering::Relaxed), 0);
    });
}

/// Does what another thread may do while the `moving` thread waits in the middle of a move.
fn act_beside(space: &Space<Linux>, nth: u32, moving: Thread) {
    let mut other = space.zeroed_buffer(5 * page_bytes()).unwrap();
    assert!(other.iter().all(|byte| *byte == 0));
    other.fill(THEIRS);
    drop(other);
    space.purge().unwrap();
    check_mapped(space);
    if nth % 5 == 0 {
        in_forked_child(|| {
            space.verify().unwrap();
            space.zeroed_buffer(9 * page_bytes()).unwrap().fill(1);
            space.purge().is_ok()
        });
    }
    if nth % 3 == 0 {
        // It waits for an answer. Its call begins again after the handler.
        moving.interrupt();
    }
}
