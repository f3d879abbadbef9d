//! Evictions a second and interrupts of four pools under one load, in interleaved rounds.

use buffer_pool::pool::Limits;
use buffer_pool::ways::Evicted;
use buffer_pool::workload::{self, Access, accesses, visit};
use buffer_pool::{ByMadvise, ByMmap, OnVmalloc, Pool, Way};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::time::Instant;

/// 256 MiB of storage, of which an eighth has memory.
const PAGES: u64 = 1 << 16;
const LIMITS: Limits = Limits { budget: 1 << 13, batch: 256 };
const ROUNDS: usize = 9;
const ACCESSES: usize = 150_000;
/// Of a hundred accesses, as many as in YCSB's load A.
const UPDATES: u32 = 50;
const THREADS: u64 = 2;

/// The figures of one round.
struct Round {
    evictions_a_second: f64,
    cpu_us_an_eviction: f64,
    evictions: f64,
    interrupts: f64,
}

/// A pool on any way.
trait Plays {
    fn play(&self, load: &[Vec<Access>]) -> Round;
}

impl<W: Way> Plays for Pool<W> {
    fn play(&self, load: &[Vec<Access>]) -> Round {
        let (evictions, interrupts, cpu) = (self.evictions(), flush_interrupts(), cpu_s());
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (nth, accesses) in load.iter().enumerate() {
                scope.spawn(move || {
                    pin(nth);
                    visit(self, accesses).expect("no page is another one")
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let evictions = (self.evictions() - evictions) as f64;
        Round {
            evictions_a_second: evictions / seconds,
            cpu_us_an_eviction: (cpu_s() - cpu) * 1e6 / evictions,
            evictions,
            interrupts: (flush_interrupts() - interrupts) as f64,
        }
    }
}

/// Binds the calling thread to a CPU of its own, as databases do. Threads that share a CPU need no interrupts, so a busy
/// scheduler would decide what is measured.
fn pin(nth: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut own = CpuSet::new();
    own.set(cpus[nth % cpus.len()]);
    // Where it is refused, the thread runs anywhere.
    let _ = sched_setaffinity(None, &own);
}

/// Returns the CPU time of the process.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns how many interrupts to flush translations all CPUs have had, for all programs of the machine.
fn flush_interrupts() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("TLB:")).unwrap_or_default();
    line.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum()
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A pool and its name.
type Named = (&'static str, Box<dyn Plays>);

fn pools() -> Result<Vec<Named>, Box<dyn Error>> {
    let pages = PAGES as usize;
    let pool = |way| workload::pool(way, PAGES, LIMITS);
    Ok(vec![
        ("madvise page by page", Box::new(workload::pool(ByMadvise::new(pages)?, PAGES, LIMITS)?)),
        ("a pool of mmaps", Box::new(workload::pool(ByMmap::new(pages)?, PAGES, LIMITS)?)),
        ("vmalloc, discard", Box::new(pool(OnVmalloc::new(pages, Evicted::ReadAsZero)?)?)),
        ("vmalloc, commit and decommit", Box::new(pool(OnVmalloc::new(pages, Evicted::Trap)?)?)),
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let pools = pools()?;
    let mut rounds: Vec<Vec<Round>> = pools.iter().map(|_| Vec::new()).collect();
    // The first round fills the pools, and does not count.
    for round in 0..=ROUNDS {
        let seed = |thread| (round as u64) * THREADS + thread;
        let load: Vec<_> =
            (0..THREADS).map(|thread| accesses(seed(thread), PAGES, ACCESSES, UPDATES)).collect();
        for ((_, pool), rounds) in pools.iter().zip(&mut rounds) {
            let figures = pool.play(&load);
            if round > 0 {
                rounds.push(figures);
            }
        }
    }
    let names: Vec<_> = pools.iter().map(|(name, _)| *name).collect();
    print(&names, &rounds);
    Ok(())
}

fn print(names: &[&str], rounds: &[Vec<Round>]) {
    let rate = |rounds: &[Round]| median(rounds.iter().map(|round| round.evictions_a_second));
    let interrupts = |rounds: &[Round]| {
        let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
        sum(|round| round.interrupts) / sum(|round| round.evictions)
    };
    println!("{ROUNDS} rounds, {THREADS} threads, {ACCESSES} accesses each, {UPDATES} % updates");
    println!(
        "| pool | evictions a second | of madvise | of mmaps | CPU µs an eviction | interrupts an eviction | of madvise |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, own) in names.iter().zip(rounds) {
        let cpu = median(own.iter().map(|round| round.cpu_us_an_eviction));
        println!(
            "| {name} | {:.0} | {:.2} | {:.2} | {cpu:.2} | {:.4} | {:.4} |",
            rate(own),
            rate(own) / rate(&rounds[0]),
            rate(own) / rate(&rounds[1]),
            interrupts(own),
            interrupts(own) / interrupts(&rounds[0])
        );
    }
    println!("bars: evictions a second ≥ 1.5 of madvise, interrupts an eviction ≤ 0.05 of madvise");
}
