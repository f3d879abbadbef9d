//! Temporaries of polars beside a reused buffer, with our global allocator and with the system's.
//!
//! `cargo run --release --bin bench [ROUNDS]`. All contenders take turns in short rounds of one run, so that a busy machine slows all of them; the
//! medians of the rounds are compared. CPU time and page faults are those of getrusage(2).

use polars_core::prelude::*;
use std::hint::black_box;
use vmalloc_client_polars::Switch;

#[global_allocator]
static HEAP: Switch = Switch::new();

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// Bytes that one round of a contender computes.
const ROUND: usize = 256 * MIB;

/// Two columns, and as many buffers as an expression makes temporaries.
struct Data {
    left: Float64Chunked,
    right: Float64Chunked,
    buffers: Vec<Vec<f64>>,
}

impl Data {
    fn new(bytes: usize, buffers: usize) -> Self {
        let column = |value: f64| Float64Chunked::full("column".into(), value, bytes / 8);
        let buffers = (0..buffers).map(|_| vec![0.0; bytes / 8]).collect();
        Self { left: column(1.5), right: column(2.5), buffers }
    }

    /// Evaluates by polars. A sum alone is one temporary; with a product and a difference they are three, which live at once.
    fn temporaries(&self) {
        let sum = &self.left + &self.right;
        if self.buffers.len() == 3 {
            let product = &sum * &self.left;
            let difference = &product - &self.right;
            black_box((&product, &difference));
        }
        black_box(&sum);
    }

    /// Evaluates into the buffers.
    fn reused(&mut self) {
        let values = |column: &Float64Chunked| column.cont_slice().expect("one chunk").as_ptr_range();
        let (left, right) = (values(&self.left), values(&self.right));
        // SAFETY: the columns live as long as this function, and nothing writes to them.
        let [left, right] = [left, right].map(|range| unsafe {
            std::slice::from_raw_parts(range.start, range.end.offset_from_unsigned(range.start))
        });
        match self.buffers.as_mut_slice() {
            [sum] => apply(left, right, sum, |a, b| a + b),
            [sum, product, difference] => {
                apply(left, right, sum, |a, b| a + b);
                apply(sum, left, product, |a, b| a * b);
                apply(product, right, difference, |a, b| a - b);
            }
            _ => unreachable!("one or three"),
        }
        black_box(&self.buffers);
    }
}

/// Does what polars does for each value.
#[inline(never)]
fn apply(left: &[f64], right: &[f64], out: &mut [f64], operation: impl Fn(f64, f64) -> f64) {
    for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
        *out = operation(*left, *right);
    }
}

/// Seconds of CPU time and page faults.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    faults: f64,
}

fn used() -> Cost {
    // SAFETY: zeros are a valid value of these numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Cost { cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime), faults: usage.ru_minflt as f64 }
}

/// Returns the cost of one repetition. The first one is not counted: a turn comes after a pause, in which freed memory decays.
fn measured(repeats: usize, mut work: impl FnMut()) -> Cost {
    work();
    let before = used();
    (0..repeats).for_each(|_| work());
    let after = used();
    let each = |after: f64, before: f64| (after - before) / repeats as f64;
    Cost { cpu: each(after.cpu, before.cpu), faults: each(after.faults, before.faults) }
}

/// A way to have temporaries.
#[derive(Clone, Copy)]
enum Way {
    Reused,
    Ours,
    System,
}

const WAYS: [Way; 3] = [Way::Reused, Way::Ours, Way::System];

fn round(way: Way, data: &mut Data, repeats: usize) -> Cost {
    HEAP.set(matches!(way, Way::Ours));
    let cost = match way {
        Way::Reused => measured(repeats, || data.reused()),
        Way::Ours | Way::System => measured(repeats, || data.temporaries()),
    };
    HEAP.set(false);
    cost
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn case(mib: usize, arrays: usize, rounds: usize) {
    let mut data = Data::new(mib * MIB, arrays);
    let repeats = (ROUND / (mib * MIB * arrays)).max(4);
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (way, costs) in WAYS.into_iter().zip(&mut costs) {
            costs.push(round(way, &mut data, repeats));
        }
    }
    let cpu = costs.each_ref().map(|costs| median(costs.iter().map(|cost| cost.cpu * 1e6).collect()));
    let faults = costs.each_ref().map(|costs| median(costs.iter().map(|cost| cost.faults).collect()));
    let (ratio, share) = (cpu[1] / cpu[0], faults[1] / (arrays * mib * MIB / PAGE) as f64);
    let verdict = if ratio <= 1.1 && share <= 0.05 { "reached" } else { "MISSED" };
    println!(
        "{arrays:>6} {mib:>3} MiB {:>9.0} {:>8.0} {:>8.0} {ratio:>8.2} {:>8.2} {:>12.1} {:>8.1} {:>8.2} %   {verdict}",
        cpu[0],
        cpu[1],
        cpu[2],
        cpu[2] / cpu[0],
        faults[1],
        faults[2],
        share * 100.0
    );
}

/// Checks that polars' temporaries are where the bench believes them to be.
fn check() {
    for is_ours in [true, false] {
        HEAP.set(is_ours);
        let sum = &Float64Chunked::full("a".into(), 1.5, MIB) + 1.0;
        HEAP.set(false);
        let values = sum.cont_slice().expect("one chunk");
        assert_eq!(HEAP.is_ours(values.as_ptr().addr()), is_ours);
        assert!(values.iter().all(|&value| value == 2.5));
    }
}

fn main() -> Result<(), std::num::ParseIntError> {
    let rounds = std::env::args().nth(1).map_or(Ok(15), |rounds| rounds.parse())?;
    check();
    println!(
        "µs of CPU time for an expression, and its page faults; bars: CPU ≤ 1.1 × reused, faults ≤ 5 % of the pages"
    );
    println!("arrays    each   reused     ours   system  ours/re.  sys./re.  faults: ours  system  of pages");
    for mib in [1, 2, 4, 8, 16, 32, 64] {
        case(mib, 1, rounds);
        case(mib, 3, rounds);
    }
    Ok(())
}
