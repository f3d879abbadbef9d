//! Small cases, with the result worked out by hand.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicU32;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Each cost another power of ten, so that a time tells what it is made of.
const COSTS: Costs = Costs {
    block: 0,
    line: 10,
    atomic: 1,
    handover: 100,
    heap: 0,
    flush: 0,
    flush_cpu: 0,
    wake: 1_000,
    switch: 10_000,
    slice: 1_000_000,
    area: 0,
    page: 0,
};

/// Two locks, on one cache line.
type Locks = [AtomicU32; 2];
type Tell<'a> = &'a dyn Fn(&'static str);
type Thread = fn(&Locks, Tell<'_>);

/// Runs threads that share two locks and a list of what happened, when.
fn run(cpus: usize, threads: &[Thread]) -> (Report, Vec<(&'static str, Picos)>) {
    let machine = Machine::new(COSTS);
    let shared: Rc<Locks> = machine.set_up(|| Rc::new([AtomicU32::new(0), AtomicU32::new(0)]));
    let told = Rc::new(RefCell::new(Vec::new()));
    let work = |&thread: &Thread| {
        let (shared, told) = (Rc::clone(&shared), Rc::clone(&told));
        Box::new(move || {
            let tell = |what| quietly(|| told.borrow_mut().push((what, now(|now| now.clock.get()))));
            thread(&shared, &tell);
        }) as Work<'_>
    };
    let report = machine.run(cpus, |_| {}, threads.iter().map(work).collect());
    drop(shared);
    let told = told.take();
    (report, told)
}

#[test]
fn lock_goes_to_those_that_wait_in_order() {
    let holder = |locks: &Locks, tell: Tell<'_>| {
        lock(&locks[0], Kind::Spin, 0);
        work(500);
        unlock(&locks[0], Kind::Spin);
        tell("0");
    };
    let (report, told) = run(
        3,
        &[
            holder,
            |locks, tell| {
                work(20);
                lock(&locks[0], Kind::Spin, 0);
                tell("1");
                work(30);
                unlock(&locks[0], Kind::Spin);
            },
            |locks, tell| {
                work(5);
                lock(&locks[0], Kind::Spin, 0);
                tell("2");
                unlock(&locks[0], Kind::Spin);
            },
        ],
    );
    // CPU 0 has the lock at 1 (the first use of its line is free) and until 501. Then its line has
    // to come back from CPU 1, where it went after CPU 2: 511. The other CPUs come at 5 + 10 + 1
    // and 20 + 10 + 1. Each hand-over takes 100 and brings the line along.
    assert_eq!(told, [("0", 511), ("2", 611), ("1", 711)]);
    assert_eq!((report.time, report.spun), (741, (611 - 16) + (711 - 31)));
    assert_eq!((report.lines.passed, report.idle), (3, 0));
    let locks = report.locks();
    let stats = &locks[0].1;
    assert_eq!((stats.taken, stats.waited, stats.wait_max), (3, 2, 711 - 31));
    assert_eq!((stats.hold, stats.hold_max), (510 + 30, 510));
}

#[test]
fn sleeper_leaves_its_cpu_and_wakes_up_in_time() {
    let (report, told) = run(
        2,
        &[
            |locks, _| {
                lock(&locks[0], Kind::Sleep, 0);
                work(5_000);
                unlock(&locks[0], Kind::Sleep);
            },
            |locks, tell| {
                work(50);
                lock(&locks[0], Kind::Sleep, 0);
                tell("woken");
                unlock(&locks[0], Kind::Sleep);
            },
        ],
    );
    // Asleep at 50 + 10 + 1; the holder is done at 1 + 5,000, and needs the line back.
    assert_eq!(told, [("woken", 5_011 + 1_000)]);
    assert_eq!((report.idle, report.spun), (6_011 - 61, 0));
    assert_eq!(report.locks()[0].1.wait, 6_011 - 61);
}

#[test]
fn woken_sleeper_takes_its_cpu_back_at_the_next_chance() {
    // Threads 0 and 2 share CPU 0: 0 sleeps for the lock of 1, and 2 runs meanwhile. It has a spin
    // lock.
    let (_, told) = run(
        2,
        &[
            |locks, tell| {
                work(50);
                lock(&locks[0], Kind::Sleep, 0);
                tell("woken");
                unlock(&locks[0], Kind::Sleep);
            },
            |locks, _| {
                lock(&locks[0], Kind::Sleep, 0);
                work(20_000);
                unlock(&locks[0], Kind::Sleep);
            },
            |locks, tell| {
                lock(&locks[1], Kind::Spin, 0);
                work(30_000);
                unlock(&locks[1], Kind::Spin);
                tell("unlocked");
                work(10);
                tell("back");
            },
        ],
    );
    // CPU 0 sleeps at 61, and thread 2 has its spin lock from some 10,000 to 40,000. Thread 0 is
    // ready long before. It gets the CPU at the next look of thread 2, 10 after the unlock.
    assert_eq!(told[0].0, "unlocked");
    let unlocked = told[0].1;
    assert_eq!(told[1], ("woken", unlocked + 10 + 10_000));
    assert_eq!(told[2].0, "back");
}

#[test]
fn threads_of_one_cpu_take_turns_by_slices() {
    let thread: Thread = |_, tell| {
        (0..3).for_each(|_| {
            work(600_000);
            tell("turn");
        });
    };
    let (report, told) = run(1, &[thread, thread]);
    // A slice of 1,000,000 is over after two parts, before the second is told. A switch takes
    // 10,000.
    let times = [600_000, 1_810_000, 2_420_000, 3_020_000, 3_030_000, 3_630_000];
    assert_eq!(told.iter().map(|it| it.1).collect::<Vec<_>>(), times);
    assert_eq!(report.idle, 0);
}

#[test]
fn same_threads_give_the_same_report() {
    let thread: Thread = |locks, _| {
        for turn in 0..50 {
            lock(&locks[turn % 2], Kind::Spin, 0);
            work(7 * turn as u64);
            unlock(&locks[turn % 2], Kind::Spin);
        }
    };
    let once = || {
        let report = run(4, &[thread; 9]).0;
        (report.time, report.busy, report.spun, report.lines, report.switches, report.locks())
    };
    assert_eq!(once(), once());
}

#[test]
#[should_panic(expected = "1 threads wait for ever")]
fn deadlock_is_reported() {
    run(
        1,
        &[|locks, _| {
            lock(&locks[0], Kind::Spin, 0);
            lock(&locks[0], Kind::Spin, 0);
        }],
    );
}

#[test]
fn allocations_have_lines_of_their_own_and_the_same_addresses_again() {
    let addresses = || {
        let machine = Machine::new(COSTS);
        machine.set_up(|| {
            let all = [Box::new(1u8), Box::new(2)].map(|it| std::ptr::from_ref(&*it).addr());
            let large = Vec::<u8>::with_capacity(5000);
            [all[0], all[1], large.as_ptr().addr()]
        })
    };
    let first = addresses();
    assert!(first.iter().all(|at| at.is_multiple_of(64)) && first[0] != first[1]);
    assert_eq!(first, addresses());
}
