//! Instantiate, run and drop: wasmer on vmalloc, beside its own mappings.
//!
//! `cargo run --release --bin bench [ROUNDS]`. Both take turns in short rounds, so that a busy machine slows both; the medians of the rounds
//! are compared. Times are CPU time of the threads. Two threads are also compared by the clock, which says something on an idle machine alone.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;
use wasmer::sys::{EngineBuilder, Singlepass};
use wasmer::{Engine, Instance, Module, Store, TypedFunction, imports};

type Any = Box<dyn std::error::Error>;

const PAGE: usize = 64 << 10;

/// Pages of a memory at first, and bytes that the guest writes to: one in each page of 4 KiB.
const CASES: &[(&str, usize, usize)] = &[
    ("64 KiB, one page touched", 1, 1),
    ("64 KiB, all touched", 1, PAGE),
    ("256 KiB, all", 4, 4 * PAGE),
    ("1 MiB, one page", 16, 1),
    ("1 MiB, all", 16, 16 * PAGE),
];

/// A module that is measured, with its engine.
struct Contender(Engine, Module);

impl Contender {
    fn new(engine: Engine, pages: usize, touched: usize) -> Result<Self, Any> {
        let text = format!(
            r#"(module (memory {pages}) (func (export "run") (local $at i32)
                (loop $next
                    (i32.store (local.get $at) (i32.const 7))
                    (local.set $at (i32.add (local.get $at) (i32.const 4096)))
                    (br_if $next (i32.lt_u (local.get $at) (i32.const {touched}))))))"#
        );
        let module = Module::new(&engine, text)?;
        Ok(Self(engine, module))
    }

    fn once(&self) {
        let mut store = Store::new(self.0.clone());
        let instance = Instance::new(&mut store, &self.1, &imports! {}).expect("it did before");
        let run: TypedFunction<(), ()> =
            instance.exports.get_typed_function(&store, "run").expect("it is there");
        run.call(&mut store).expect("it did before");
        black_box(&store);
    }

    /// Returns the time of one run, on each of so many threads at once.
    fn round(&self, threads: usize, runs: usize) -> Time {
        let start = Barrier::new(threads);
        let timed = || {
            self.once();
            start.wait();
            let (begin, clock) = (cpu_nanos(), Instant::now());
            (0..runs).for_each(|_| self.once());
            let cpu = cpu_nanos() - begin;
            [cpu, clock.elapsed().as_nanos() as f64].map(|nanos| nanos / runs as f64)
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(timed)).collect();
            let mine = timed();
            let sum = others.into_iter().map(|other| other.join().expect("it ran")).fold(mine, add);
            let [cpu, clock] = sum.map(|nanos| nanos / threads as f64 / 1000.0);
            Time { cpu, clock }
        })
    }
}

/// Microseconds of one run.
#[derive(Clone, Copy)]
struct Time {
    cpu: f64,
    clock: f64,
}

fn add(left: [f64; 2], right: [f64; 2]) -> [f64; 2] {
    [left[0] + right[0], left[1] + right[1]]
}

/// Returns the CPU time that the calling thread has had, in nanoseconds.
fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Measures one case, with both contenders on one thread and on two, in turns.
fn case(name: &str, pages: usize, touched: usize, rounds: usize) -> Result<(), Any> {
    let ours = Contender::new(vmalloc_client_wasmer::store().engine().clone(), pages, touched)?;
    let default = EngineBuilder::new(Singlepass::default()).engine().into();
    let default = Contender::new(default, pages, touched)?;
    let mut times = [[vec![], vec![]], [vec![], vec![]]];
    for _ in 0..rounds {
        for (threads, times) in [1, 2].into_iter().zip(&mut times) {
            for (contender, times) in [&ours, &default].into_iter().zip(times) {
                times.push(contender.round(threads, 150));
            }
        }
    }
    let middle = |threads: usize, contender: usize, what: fn(&Time) -> f64| {
        median(times[threads - 1][contender].iter().map(what).collect())
    };
    let (cpu, clock): (fn(&Time) -> f64, fn(&Time) -> f64) = (|time| time.cpu, |time| time.clock);
    for threads in [1, 2] {
        let (ours, default) = (middle(threads, 0, cpu), middle(threads, 1, cpu));
        let ratio = ours / default;
        let verdict = if ratio <= 0.5 { "reached" } else { "MISSED" };
        let scaled = if threads == 1 {
            String::new()
        } else {
            let gain = |what| 2.0 * middle(1, 0, what) / middle(2, 0, what);
            let verdict = if gain(cpu) >= 1.8 { "reached" } else { "MISSED" };
            format!("{:.2} × {verdict}, {:.2} × by the clock", gain(cpu), gain(clock))
        };
        println!("{name:<27} {threads:>7} {ours:>6.2} {default:>8.2}   {ratio:.2} {verdict:<14} {scaled}");
    }
    Ok(())
}

fn main() -> Result<(), Any> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(21), |rounds| rounds.parse())?;
    println!("µs of CPU time for instantiate + run + drop, per thread");
    println!(
        "memory                      threads   ours   wasmer   ratio (bar ≤ 0.5)   our 2 threads to one (bar ≥ 1.8 ×)"
    );
    for &(name, pages, touched) in CASES {
        case(name, pages, touched, rounds)?;
    }
    Ok(())
}
