//! The drain thread: when there is one, what it does, and how it ends.

use crate::common::process::set_soft_limit;
use crate::common::trapping::fill_area;
use crate::common::*;
use rustix::process::Resource;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vmalloc::{DrainReason, Platform, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, on_drain_thread, open};

const SPAN: usize = 1 << 28;
const LAZY_MAX: u64 = 64;
/// Pages of an area that is too large to be cached, and enough to pass the threshold.
const LARGE: usize = 400;

fn lazy_space() -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(SPAN), SpaceOptions::default().lazy_max_pages(LAZY_MAX)).unwrap()
}

/// Frees so much that a drain is due.
fn pass_the_threshold(space: &Space<Linux>) {
    free(space, alloc(space, LARGE));
}

/// The files of all threads of this process. The kernel's list of them ends early when the thread
/// that it is at ends meanwhile, even one that was waited for: so it is read until it is the same
/// twice.
fn threads() -> Vec<std::path::PathBuf> {
    let list = || -> Vec<_> {
        std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path()).collect()
    };
    std::iter::repeat_with(|| (list(), list())).find(|(one, two)| one == two).unwrap().0
}

/// The files of all drain threads.
pub(crate) fn drain_threads() -> Vec<std::path::PathBuf> {
    // A thread may end while it is looked at.
    let drains = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "vmalloc-drain\n")
    };
    threads().into_iter().filter(drains).collect()
}

/// Waits for what other threads do. No test depends on how long it takes.
#[track_caller]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn wait_for_threads(count: usize) {
    wait_until(&format!("there are {count} drain threads"), || drain_threads().len() == count);
}

fn is_drained(space: &Space<Linux>) -> bool {
    let stats = space.stats();
    stats.lazy_areas == 0 && stats.cached_areas == 0
}

#[test]
fn the_thread_is_created_on_first_need_and_ends_with_the_last_space() {
    in_own_process(|| {
        let space = lazy_space();
        let small = alloc(&space, 3);
        assert_eq!(drain_threads().len(), 0);
        // Areas cached now will have to go by their age.
        free(&space, small);
        wait_for_threads(1);
        for _ in 0..100 {
            pass_the_threshold(&space);
        }
        let second = lazy_space();
        pass_the_threshold(&second);
        wait_until("the second space is drained", || second.stats().lazy_pages == 0);
        assert_eq!(drain_threads().len(), 1, "one thread for all spaces");
        drop(second);
        assert_eq!(drain_threads().len(), 1, "a space is left");
        wait_until("all is drained", || is_drained(&space));
        space.verify().unwrap();
        drop(space);
        wait_for_threads(0);
        // A later space has a thread again.
        let space = lazy_space();
        pass_the_threshold(&space);
        wait_for_threads(1);
        wait_until("the later space is drained", || space.stats().lazy_pages == 0);
        drop(space);
        wait_for_threads(0);
        assert!(!on_drain_thread());
    });
}

#[test]
fn one_thread_drains_a_thousand_spaces() {
    in_own_process(|| {
        // Spans of which a 32-bit process has room for as many.
        let options = LinuxOptions::new().max_bytes(1 << 20).frame_bytes(0);
        let open = || open(options, SpaceOptions::default().lazy_max_pages(LAZY_MAX)).unwrap();
        let spaces: Vec<_> = std::iter::repeat_with(open).take(1_000).collect();
        let before = threads().len();
        for space in &spaces {
            free(space, alloc(space, 2));
        }
        assert_eq!((threads().len(), drain_threads().len()), (before + 1, 1));
        wait_until("all spaces are drained by age", || spaces.iter().all(|space| is_drained(space)));
        assert_eq!(threads().len(), before + 1);
        let thread = drain_threads().remove(0);
        wait_until("the thread sleeps without end", || sleeps_without_end(&thread));
        // It wakes again.
        free(&spaces[500], alloc(&spaces[500], 1));
        wait_until("all is drained again", || is_drained(&spaces[500]));
        drop(spaces);
        wait_for_threads(0);
    });
}

/// The thread's system call, as proc_pid_syscall(5) tells it: futex(word, wait, value, timeout).
fn sleeps_without_end(task: &std::path::Path) -> bool {
    let Ok(call) = std::fs::read_to_string(task.join("syscall")) else { return true };
    let words: Vec<_> = call.split(' ').collect();
    words[0] == libc::SYS_futex.to_string() && words[4] == "0x0"
}

#[test]
fn the_thread_takes_no_signals() {
    in_own_process(|| {
        let space = lazy_space();
        pass_the_threshold(&space);
        wait_for_threads(1);
        let status = std::fs::read_to_string(drain_threads()[0].join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        let free: Vec<_> = (1..=64).filter(|signal| blocked & 1 << (signal - 1) == 0).collect();
        // Two that cannot be blocked, the one that a filter of system calls raises, and those below
        // SIGRTMIN that the C library uses itself.
        let not_ours = |signal: &i32| {
            [libc::SIGKILL, libc::SIGSTOP, libc::SIGSYS].contains(signal)
                || (32..libc::SIGRTMIN()).contains(signal)
        };
        assert!(free.iter().all(not_ours), "{free:?}");
        let mut mask = std::mem::MaybeUninit::uninit();
        // SAFETY: room for a set, which is filled before it is read.
        let creators = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            libc::sigismember(mask.as_ptr(), libc::SIGUSR1)
        };
        assert_eq!(creators, 0, "the thread that freed keeps its mask");
    });
}

#[test]
fn without_the_thread_frees_purge_by_themselves() {
    in_own_process(|| {
        let space_options = SpaceOptions::default().lazy_max_pages(LAZY_MAX);
        let off = open(LinuxOptions::new().max_bytes(SPAN).drain_thread(false), space_options).unwrap();
        let bare = Space::new(reserved(LinuxOptions::new().max_bytes(SPAN)), space_options).unwrap();
        for space in [&*off, &bare] {
            assert!(!space.platform().drain_later(DrainReason::Threshold));
            for _ in 0..100 {
                pass_the_threshold(space);
                assert_eq!(space.stats().lazy_pages, 0);
            }
        }
        in_forked_child(|| {
            pass_the_threshold(&off);
            off.stats().lazy_pages == 0 && drain_threads().is_empty()
        });
        assert_eq!(drain_threads().len(), 0);
        // The thread of another space leaves this one alone.
        free(&off, alloc(&off, 2));
        let kept = off.stats().cached_areas;
        assert!(kept > 0);
        let other = lazy_space();
        free(&other, alloc(&other, 2));
        wait_until("the other space is drained", || is_drained(&other));
        assert_eq!((off.stats().cached_areas, drain_threads().len()), (kept, 1));
    });
}

/// Frees over the threshold until told to stop: there is always a drain under way, or about to be.
fn churn(space: &Space<Linux>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let areas: [_; 8] = std::array::from_fn(|index| alloc(space, 1 + index));
        areas.iter().for_each(|&addr| free(space, addr));
        pass_the_threshold(space);
    }
}

/// In a child: gives up the parent's share of the space, which is the only one here.
fn drop_in_child(space: &Arc<Space<Linux>>) -> bool {
    let weak = Arc::downgrade(space);
    // SAFETY: the child ends without using or dropping the parent's `Arc`, of which this is the
    // only count.
    drop(unsafe { Arc::from_raw(Arc::as_ptr(space)) });
    weak.strong_count() == 0
}

#[test]
fn a_child_forked_while_one_space_is_drained_drains_all_by_one_thread() {
    in_own_process(|| {
        let (busy, other) = (lazy_space(), lazy_space());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| churn(&busy, &stop));
            wait_for_threads(1);
            for round in 0..32 {
                // What the parent was asked for by age, in most rounds not drained at the fork.
                free(&other, alloc(&other, 1));
                in_forked_child(|| {
                    let alone = drain_threads().is_empty();
                    if round % 4 == 3 {
                        return alone && drop_in_child(&busy) && drop_in_child(&other);
                    }
                    // A request of either space.
                    pass_the_threshold(if round % 2 == 0 { &busy } else { &other });
                    wait_for_threads(1);
                    wait_until("the child has drained", || busy.stats().lazy_pages == 0);
                    wait_until("the other too", || other.stats().lazy_pages == 0);
                    busy.verify().unwrap();
                    other.verify().unwrap();
                    // A child of the child, while its thread is there.
                    in_forked_child(|| drain_threads().is_empty());
                    wait_until("the thread lets go", || Arc::strong_count(&busy) == 1);
                    let dropped = drop_in_child(&busy);
                    let is_there = drain_threads().len() == 1;
                    let both = drop_in_child(&other);
                    wait_for_threads(0);
                    alone && dropped && is_there && both
                });
            }
            stop.store(true, Ordering::Relaxed);
        });
        wait_until("the parent has drained", || busy.stats().lazy_pages == 0);
        drop((busy, other));
        wait_for_threads(0);
    });
}

#[test]
fn spaces_that_come_while_the_last_one_goes_are_drained() {
    in_own_process(|| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let space = lazy_space();
                        pass_the_threshold(&space);
                        if round % 4 == 0 {
                            wait_until("it is drained", || space.stats().lazy_pages == 0);
                        }
                        drop(space);
                    }
                });
            }
        });
        wait_for_threads(0);
    });
}

#[test]
fn a_child_of_a_fork_drains_what_its_parent_kept_from_its_first_free_on() {
    in_own_process(|| {
        let space = lazy_space();
        let areas: Vec<_> = (0..8).map(|_| alloc(&space, 2)).collect();
        areas[1..].iter().for_each(|&addr| free(&space, addr));
        in_forked_child(|| {
            assert_eq!(drain_threads().len(), 0);
            // The parent's nodes have told the platform of their cached areas. The child's platform
            // has not heard of them.
            free(&space, areas[0]);
            wait_for_threads(1);
            wait_until("all is drained", || is_drained(&space));
            space.verify().is_ok()
        });
    });
}

#[test]
fn the_last_owner_may_let_go_while_a_drain_is_under_way() {
    in_own_process(|| {
        let mut spaces: Vec<Weak<Space<Linux>>> = Vec::new();
        let mut let_go_by_the_thread = 0;
        for round in 0..1000 {
            let space = lazy_space();
            let areas: Vec<_> = (0..round % 100).map(|_| alloc(&space, 2)).collect();
            areas.iter().for_each(|&addr| free(&space, addr));
            pass_the_threshold(&space);
            if round % 3 == 1 {
                // From another thread, and after a while.
                std::thread::sleep(Duration::from_micros(round % 50));
                std::thread::scope(|scope| drop(scope.spawn(|| pass_the_threshold(&space))));
            }
            spaces.push(Arc::downgrade(&space));
            drop(space);
            let_go_by_the_thread += spaces.last().unwrap().strong_count();
        }
        eprintln!("{let_go_by_the_thread} of {} were let go by their thread", spaces.len());
        wait_until("all spaces are gone", || spaces.iter().all(|space| space.strong_count() == 0));
        wait_for_threads(0);
    });
}

#[test]
fn where_no_thread_can_be_created_frees_purge_until_one_can() {
    in_own_process(|| {
        let before = set_soft_limit(Resource::Nproc, 0);
        // The limit does not hold for root.
        // SAFETY: no conditions.
        if unsafe { libc::getuid() } == 0 {
            // SAFETY: no conditions; this process was made for it.
            assert_eq!(unsafe { libc::setuid(65_534) }, 0);
        }
        let space = lazy_space();
        for _ in 0..10 {
            pass_the_threshold(&space);
            assert_eq!(space.stats().lazy_pages, 0);
            assert!(!space.platform().drain_later(DrainReason::Threshold));
        }
        assert_eq!(drain_threads().len(), 0);
        set_soft_limit(Resource::Nproc, before);
        let requests = (1..=1025).find(|_| space.platform().drain_later(DrainReason::Threshold)).unwrap();
        assert!(requests > 1, "an attempt at each free");
        wait_for_threads(1);
        drop(space);
        wait_for_threads(0);
    });
}

/// The bound that docs/memory.md states, in resident memory: after a burst, and by age.
#[test]
fn what_a_space_holds_beyond_what_is_in_use_is_bounded_and_goes() {
    const MIB: usize = 1 << 20;
    in_own_process(|| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cached = 64 * MIB * cpus.max(4);
        let lazy = 64 * MIB * (usize::BITS - cpus.leading_zeros()) as usize;
        let settings = SpaceOptions::default();
        for (settings, held) in [(settings, cached + cached / 4), (settings.unmap_on_free(), lazy)] {
            let options = LinuxOptions::new().max_bytes(4 * held).drain_thread(false);
            let space = open(options, settings).unwrap();
            let before = status_bytes("RssAnon:");
            let resident = || status_bytes("RssAnon:").saturating_sub(before + 8 * MIB);
            // Half as much again as may stay.
            let areas: Vec<usize> =
                (0..3 * held / 2 / (100 * page_bytes())).map(|_| alloc(&space, 100)).collect();
            areas.iter().for_each(|&addr| fill_area(addr, 100, 1));
            assert!(resident() > held, "{settings:?}");
            areas.into_iter().for_each(|addr| free(&space, addr));
            let burst = resident();
            assert!(burst <= held, "{burst} of {held} bytes are held, {settings:?}");
            (0..10).for_each(|_| _ = space.drain().unwrap());
            assert!(resident() <= burst / 10, "{} of {burst} after ten seconds, {settings:?}", resident());
            (0..50).for_each(|_| _ = space.drain().unwrap());
            assert_eq!(resident(), 0, "after a minute, {settings:?}");
        }
    });
}
