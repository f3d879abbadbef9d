//! Generators made, resumed and dropped, with whatever stacks `generator` has. Each line of input is an order, and is answered by a line.
//!
//! - `pairs COUNT`: the CPU time of one of COUNT, in nanoseconds;
//! - `live COUNT`: COUNT live at once, each resumed; memory in MiB and mappings;
//! - `overflow`: recursion without end. The program dies, or the library reports an overflow.

use generator::{Gn, Scope};
use std::hint::black_box;
use std::io::BufRead;

/// Returns this thread's CPU time in nanoseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns a generator that yields 1 and then ends with 2.
fn make() -> generator::Generator<'static, (), u64> {
    Gn::new_scoped(|mut scope: Scope<(), u64>| {
        scope.yield_(1);
        2
    })
}

fn pairs(count: usize) -> f64 {
    let begin = now();
    for _ in 0..count {
        let mut generator = make();
        assert_eq!((generator.next(), generator.next()), (Some(1), Some(2)));
        drop(black_box(generator));
    }
    (now() - begin) / count as f64
}

fn live(count: usize) -> String {
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let mut generator = make();
        assert_eq!(generator.next(), Some(1));
        all.push(generator);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    assert!(all.iter_mut().all(|generator| generator.next() == Some(2)), "all end");
    format!("{count} live, {rss}, {mappings} mappings")
}

/// Recurses without end.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + frame[7] }
}

/// Overflows a generator's stack, and returns what the library makes of it.
fn overflow() -> String {
    let ended = std::panic::catch_unwind(|| Gn::<()>::new_scoped(|_: Scope<(), u64>| recurse(0)).next());
    format!("reported: {}", ended.is_err_and(|error| error.is::<generator::Error>()))
}

fn main() {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let order = words.next().unwrap_or_default();
        let count = words.next().map_or(0, |word| word.parse().unwrap());
        match order {
            "pairs" => println!("{}", pairs(count)),
            "live" => println!("{}", live(count)),
            "overflow" => println!("{}", overflow()),
            _ => panic!("no such order: {line}"),
        }
    }
}
