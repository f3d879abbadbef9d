//! Instantiate, run and drop: wasmtime on vmalloc, beside its pooling allocator in each good setting and its own mappings.
//!
//! `cargo run --release --bin bench [ROUNDS [CASE]]`. All contenders take turns in short rounds, so that a busy machine slows all of them; the medians
//! of the rounds are compared.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use vmalloc_client_wasmtime::{Memories, Stacks};
use wasmtime::{
    Config, Enabled, Engine, Instance, InstanceAllocationStrategy, InstancePre, Linker, Module,
    PoolingAllocationConfig, Store,
};

type Any = Box<dyn std::error::Error>;

const KIB: usize = 1 << 10;
const PAGE: usize = 64 * KIB;

/// One line of the table.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Bytes of the memory at first, and when it runs.
    first: usize,
    last: usize,
    /// Bytes that the guest writes to, one in each page.
    touched: usize,
    /// Bytes of addresses, and of guard.
    reserved: usize,
    guard: usize,
    data: bool,
    bar: f64,
}

const SMALL: Case = Case {
    name: "",
    first: PAGE,
    last: PAGE,
    touched: PAGE,
    reserved: 1024 * KIB,
    guard: 64 * KIB,
    data: false,
    bar: 0.8,
};
const LARGE: Case = Case { reserved: 4 << 30, guard: 32 << 20, bar: 1.0, ..SMALL };

const CASES: &[Case] = &[
    Case { name: "64 KiB, all touched", ..SMALL },
    Case { name: "64 KiB, one page", touched: 1, ..SMALL },
    Case { name: "256 KiB, all", first: 4 * PAGE, last: 4 * PAGE, touched: 4 * PAGE, ..SMALL },
    Case { name: "256 KiB, one page", first: 4 * PAGE, last: 4 * PAGE, touched: 1, ..SMALL },
    Case { name: "1 MiB, all", first: 16 * PAGE, last: 16 * PAGE, touched: 16 * PAGE, ..SMALL },
    Case { name: "1 MiB, one page", first: 16 * PAGE, last: 16 * PAGE, touched: 1, ..SMALL },
    Case { name: "4 GiB + guard: 64 KiB, all", ..LARGE },
    Case { name: "4 GiB + guard: 64 KiB, one", touched: 1, ..LARGE },
    Case { name: "4 GiB + guard: 256 KiB, all", first: 4 * PAGE, last: 4 * PAGE, touched: 4 * PAGE, ..LARGE },
    Case {
        name: "4 GiB + guard: 1 MiB, all",
        first: 16 * PAGE,
        last: 16 * PAGE,
        touched: 16 * PAGE,
        ..LARGE
    },
    Case { name: "4 GiB + guard: 1 MiB, one", first: 16 * PAGE, last: 16 * PAGE, touched: 1, ..LARGE },
    Case { name: "4 GiB + guard: grown to 1 MiB", last: 16 * PAGE, touched: 16 * PAGE, ..LARGE },
    Case { name: "4 GiB + guard: 64 KiB of data", data: true, touched: 1, ..LARGE },
];

/// A way to have memories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Ours,
    /// Keeps the whole memory resident; without and with a scan for the pages that were used.
    Pool(Enabled),
    /// Keeps nothing, and gives memory back in batches.
    PoolBatched,
    OnDemand,
}

const WAYS: [Way; 5] =
    [Way::Ours, Way::Pool(Enabled::No), Way::Pool(Enabled::Yes), Way::PoolBatched, Way::OnDemand];

fn pooling(case: &Case) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.max_memory_size(case.reserved).linear_memory_keep_resident(case.last).table_keep_resident(PAGE);
    pool.total_core_instances(1000)
        .total_memories(1000)
        .total_stacks(100)
        .async_stack_keep_resident(16 * KIB);
    pool
}

fn engine(way: Way, case: &Case) -> Result<Engine, Any> {
    let mut config = Config::new();
    config.memory_reservation(case.reserved as u64).memory_guard_size(case.guard as u64);
    match way {
        // As `install`, with slots of this case's own: the contenders' pools are new as well.
        Way::Ours => {
            config.memory_init_cow(false).with_host_memory(Arc::new(Memories::open()?));
            config.with_host_stack(Arc::new(Stacks::open(2 << 20)?));
        }
        Way::Pool(scan) => _ = config.allocation_strategy(pooling(case).pagemap_scan(scan).clone()),
        Way::PoolBatched => {
            let mut pool = pooling(case);
            pool.linear_memory_keep_resident(0).decommit_batch_size(64);
            config.allocation_strategy(pool);
        }
        Way::OnDemand => _ = config.allocation_strategy(InstanceAllocationStrategy::OnDemand),
    }
    Ok(Engine::new(&config)?)
}

fn text(case: &Case) -> String {
    let (first, last, touched) = (case.first / PAGE, case.last / PAGE, case.touched);
    let grow = if last > first {
        format!("(drop (memory.grow (i32.const {})))", last - first)
    } else {
        String::new()
    };
    let data = if case.data {
        format!("(data (i32.const 0) \"{}\")", "x".repeat(case.first))
    } else {
        String::new()
    };
    format!(
        r#"(module (memory {first} {last}) {data} (func (export "run") (local $at i32) {grow}
            (loop $next
                (i32.store (local.get $at) (i32.const 7))
                (local.set $at (i32.add (local.get $at) (i32.const 4096)))
                (br_if $next (i32.lt_u (local.get $at) (i32.const {touched}))))))"#
    )
}

fn prepare(way: Way, case: &Case) -> Result<InstancePre<()>, Any> {
    let engine = engine(way, case)?;
    let module = Module::new(&engine, text(case))?;
    Ok(Linker::new(&engine).instantiate_pre(&module)?)
}

/// The cases measured.
fn once(pre: &InstancePre<()>) {
    let mut store = Store::new(pre.module().engine(), ());
    let instance = pre.instantiate(&mut store).expect("it did before");
    let run = instance.get_typed_func::<(), ()>(&mut store, "run").expect("it is there");
    run.call(&mut store, ()).expect("it did before");
    black_box(&store);
}

/// Returns the CPU time that the calling thread has had, in nanoseconds. Unlike the time of a clock it says something on a busy machine. It
/// does not count a thread that sleeps until another one frees a lock.
fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Returns nanoseconds of CPU time for one run, on each of so many threads at once.
fn round(pre: &InstancePre<()>, threads: usize, runs: usize) -> f64 {
    let start = Barrier::new(threads);
    let timed = || {
        once(pre);
        start.wait();
        let begin = cpu_nanos();
        (0..runs).for_each(|_| once(pre));
        (cpu_nanos() - begin) / runs as f64
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(timed)).collect();
        let mine = timed();
        (mine + others.into_iter().map(|other| other.join().expect("it ran")).sum::<f64>()) / threads as f64
    })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Measures one case in turns, and returns the medians of [`WAYS`].
fn medians(pres: &[InstancePre<()>], threads: usize, rounds: usize) -> Vec<f64> {
    let mut times = vec![Vec::new(); pres.len()];
    // About 4 ms a round.
    let counts: Vec<_> =
        pres.iter().map(|pre| (4e6 / round(pre, threads, 50)).clamp(20.0, 2000.0) as usize).collect();
    for _ in 0..rounds {
        for ((pre, runs), times) in pres.iter().zip(&counts).zip(&mut times) {
            times.push(round(pre, threads, *runs));
        }
    }
    times.into_iter().map(median).collect()
}

fn cases(rounds: usize) -> Result<(), Any> {
    println!(
        "µs of CPU time for instantiate + run + drop; pool: kept resident, the same with PAGEMAP_SCAN, given back by 64"
    );
    println!(
        "memory                          threads   ours    pool  +scan  batched  on demand   ours/best pool   bar"
    );
    for case in CASES {
        let pres = WAYS.iter().map(|&way| prepare(way, case)).collect::<Result<Vec<_>, _>>()?;
        for threads in [1, 2] {
            let times = medians(&pres, threads, rounds);
            let best = times[1..4].iter().copied().fold(f64::INFINITY, f64::min);
            let ratio = times[0] / best;
            let verdict = if ratio <= case.bar { "reached" } else { "MISSED" };
            let [ours, pool, scan, batched, demand] = [0, 1, 2, 3, 4].map(|place| times[place] / 1000.0);
            println!(
                "{:<31} {threads:>7} {ours:>6.2} {pool:>7.2} {scan:>6.2} {batched:>8.2} {demand:>10.2} {ratio:>16.2}   ≤ {:.1} {verdict}",
                case.name, case.bar
            );
        }
    }
    Ok(())
}

/// Makes instances until one is refused, or there are enough.
fn live(pre: &InstancePre<()>, most: usize) -> (Vec<(Store<()>, Instance)>, Option<wasmtime::Error>) {
    let mut all = Vec::new();
    while all.len() < most {
        let mut store = Store::new(pre.module().engine(), ());
        match pre.instantiate(&mut store) {
            Ok(instance) => all.push((store, instance)),
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

fn limits() -> Result<(), Any> {
    println!("\n10,000 instances alive at once, 4 GiB + guard each");
    for (name, way) in [
        ("ours", Way::Ours),
        ("pool, its default of 1000", Way::Pool(Enabled::No)),
        ("on demand", Way::OnDemand),
    ] {
        let pre = prepare(way, &LARGE)?;
        let begin = cpu_nanos();
        let (all, error) = live(&pre, 10_000);
        let (made, count) = (cpu_nanos() - begin, all.len());
        let begin = cpu_nanos();
        drop(all);
        let error = error.map_or(String::new(), |error| format!(": {error}"));
        let each = |nanos: f64| nanos / count as f64 / 1000.0;
        println!(
            "{name:<26} {count:>6} made in {:.1} µs each, dropped in {:.1} µs each{error}",
            each(made),
            each(cpu_nanos() - begin)
        );
    }
    let mut config = Config::new();
    let mut pool = PoolingAllocationConfig::new();
    pool.total_memories(20_000).total_core_instances(20_000);
    config.allocation_strategy(pool);
    let answer =
        Engine::new(&config).map(|_| "an engine".to_owned()).unwrap_or_else(|error| format!("{error:#}"));
    println!("pool of 20,000 memories: {answer}");
    Ok(())
}

/// An async call on a fresh store: a stack is made, used and dropped.
fn stacks(rounds: usize) -> Result<(), Any> {
    println!("\nµs of CPU time for instantiate + async call + drop, 64 KiB, one page touched");
    let case = Case { touched: 1, ..LARGE };
    let ways = [Way::Ours, Way::Pool(Enabled::No), Way::OnDemand];
    let pres = ways.iter().map(|&way| prepare(way, &case)).collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (pre, times) in pres.iter().zip(&mut times) {
            let begin = cpu_nanos();
            (0..200).for_each(|_| pollster::block_on(once_async(pre)));
            times.push((cpu_nanos() - begin) / 200.0 / 1000.0);
        }
    }
    let times: Vec<_> = times.into_iter().map(median).collect();
    let ratio = times[0] / times[1];
    println!("ours {:.2}, pool {:.2}, on demand {:.2}; ours/pool {ratio:.2}", times[0], times[1], times[2]);
    Ok(())
}

async fn once_async(pre: &InstancePre<()>) {
    let mut store = Store::new(pre.module().engine(), ());
    let instance = pre.instantiate_async(&mut store).await.expect("it did before");
    let run = instance.get_typed_func::<(), ()>(&mut store, "run").expect("it is there");
    run.call_async(&mut store, ()).await.expect("it did before");
    black_box(&store);
}

fn main() -> Result<(), Any> {
    if let Some(name) = std::env::args().nth(2) {
        // For a profiler: one case of ours, by the start of its name.
        let case = CASES.iter().find(|case| case.name.starts_with(&name)).ok_or("no such case")?;
        let pre = prepare(Way::Ours, case)?;
        println!("{:.0} ns", round(&pre, 1, 1_000_000 / (case.last / PAGE)));
        return Ok(());
    }
    let rounds = std::env::args().nth(1).map_or(Ok(21), |rounds| rounds.parse())?;
    cases(rounds)?;
    stacks(rounds)?;
    limits()?;
    Ok(())
}
