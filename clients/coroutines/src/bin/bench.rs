//! Prints what a coroutine costs, made, resumed and dropped, on the library's stacks and on ours, and a million live ones on ours.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, stack};
use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use vmalloc_stacks::{Stacks, StacksOptions};

const ROUNDS: usize = 9;
const PAIRS: usize = 5_000;
const LIVE: usize = 1_000_000;
/// A stack of 64 KiB, as the bench of `vmalloc-stacks` has them.
const BYTES: usize = 64 << 10;
const BAR: f64 = 50.0;
/// A million need 4 GiB, those of `generator` 8 GiB. Twice that is not taken from a machine that others use.
const NEEDED_MIB: usize = 12 << 10;

/// Returns this thread's CPU time in nanoseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Makes, resumes twice and drops coroutines, and returns the CPU time of one.
fn pairs<S: stack::Stack + 'static>(count: usize, stack: impl Fn() -> S) -> f64 {
    let begin = now();
    for _ in 0..count {
        let mut coroutine = Coroutine::with_stack(stack(), |yielder, input: u64| {
            yielder.suspend(input);
            2_u64
        });
        assert_eq!(coroutine.resume(1), CoroutineResult::Yield(1));
        assert_eq!(coroutine.resume(1), CoroutineResult::Return(2));
        drop(black_box(coroutine));
    }
    (now() - begin) / count as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn row(library: &str, theirs: &mut [f64], ours: &mut [f64]) {
    let (their, our) = (median(theirs), median(ours));
    let ratio = their / our;
    let verdict = if ratio >= BAR { "reached" } else { "NOT REACHED" };
    println!("| {library} | {their:.0} | {our:.0} | {ratio:.0} × | ≥ {BAR} ×: {verdict} |");
}

fn corosensei(stacks: &Stacks) {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(pairs(PAIRS, || DefaultStack::new(BYTES).expect("a stack")));
        ours.push(pairs(20 * PAIRS, || stacks.stack().expect("a stack")));
    }
    row("corosensei 0.3.4", &mut theirs, &mut ours);
}

/// The program `pair`, which answers orders.
struct Pair {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pair {
    fn start(program: &Path) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, orders, answers })
    }

    fn ask(&mut self, order: &str) -> Result<String, Box<dyn Error>> {
        writeln!(self.orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.is_empty() {
            return Err(format!("`pair` died of {order:?}").into());
        }
        Ok(answer.trim().to_owned())
    }

    fn end(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.orders);
        self.child.wait()?;
        Ok(())
    }
}

fn generator() -> Result<Pair, Box<dyn Error>> {
    coroutines::prepare_generator();
    let (mut their, mut our) =
        (Pair::start(&coroutines::build_pair(false))?, Pair::start(&coroutines::build_pair(true))?);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        theirs.push(their.ask(&format!("pairs {PAIRS}"))?.parse()?);
        ours.push(our.ask(&format!("pairs {}", 20 * PAIRS))?.parse()?);
    }
    row("generator 0.8.12", &mut theirs, &mut ours);
    their.end()?;
    Ok(our)
}

/// Returns a figure of a file like /proc/meminfo in MiB.
fn mib(file: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or(0) >> 10
}

/// Makes many live coroutines of corosensei, and lets all of them end.
fn live(stacks: &Stacks) {
    let begin = now();
    let mut all: Vec<_> = (0..LIVE)
        .map(|_| {
            let mut coroutine =
                Coroutine::with_stack(stacks.stack().expect("a stack"), |yielder, input: u64| {
                    yielder.suspend(input);
                    2_u64
                });
            assert_eq!(coroutine.resume(1), CoroutineResult::Yield(1));
            coroutine
        })
        .collect();
    let (each, memory) = ((now() - begin) / LIVE as f64, mib("/proc/self/status", "VmRSS"));
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap_or_default().lines().count();
    assert!(all.iter_mut().all(|coroutine| coroutine.resume(1) == CoroutineResult::Return(2)), "all end");
    println!("corosensei: {LIVE} live, {each:.0} ns each, {memory} MiB, {mappings} mappings; all ended");
}

fn main() -> Result<(), Box<dyn Error>> {
    let stacks = Stacks::open(&StacksOptions::new().stack_bytes(BYTES).name("bench"))?;
    println!("Made, resumed twice and dropped: medians of {ROUNDS} interleaved rounds, CPU time.\n");
    println!("| library | its mmap stacks, ns | ours, ns | gain | bar |\n|---|---|---|---|---|");
    corosensei(&stacks);
    let mut pair = generator()?;
    println!();
    if mib("/proc/meminfo", "MemAvailable") < NEEDED_MIB {
        println!("{LIVE} live: NOT RUN: less than {NEEDED_MIB} MiB of memory are free");
        return pair.end();
    }
    live(&stacks);
    drop(stacks);
    println!("generator: {}; all ended", pair.ask(&format!("live {LIVE}"))?);
    pair.end()
}
