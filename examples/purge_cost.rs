//! What a scattered purge costs: 1024 ranges of 4 touched pages, while another thread of the
//! program is running.
//!
//! For each means of guarding that the kernel has, in one call and with one call a range:
//! nanoseconds a range, and interrupts of the other CPUs a purge (the `TLB` line of
//! `/proc/interrupts`, which counts those of the whole machine). Medians over the rounds in which
//! the other thread had a CPU for nine tenths of the time: a thread that does not run needs no
//! interrupt, so on a busy machine the other rounds would flatter. A line without any such round
//! has no figures.
//!
//! `cargo run --release -p vmalloc-examples --example purge_cost`

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vmalloc::{PageRange, Platform, PlatformError, Protection};
use vmalloc_linux::{Error, GuardMeans, Linux, LinuxOptions, ReserveError, SpaceOptions};

const RANGES: u64 = 1024;
const PAGES: u64 = 4;
/// Areas keep their distance: each range ends in a guard page, and as many pages again stay
/// unmapped.
const STRIDE: u64 = 2 * PAGES;
/// Rounds that count, and how long to try for them.
const ROUNDS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(3);

/// How the ranges are handed in.
#[derive(Clone, Copy, Debug)]
enum Calls {
    One,
    OneForEach,
}

struct Line {
    guards: GuardMeans,
    calls: Calls,
    /// Rounds that count.
    rounds: usize,
    ns_per_range: Option<u64>,
    interrupts_per_purge: Option<u64>,
}

/// One purge.
struct Round {
    time: Duration,
    interrupts: u64,
    /// CPU time that the other thread had meanwhile.
    beside: Duration,
}

impl Round {
    fn counts(&self) -> bool {
        self.beside >= self.time * 9 / 10
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = measure_all()?;
    Ok(std::io::stdout().write_all(as_json(&lines).as_bytes())?)
}

fn measure_all() -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for guards in GuardMeans::all() {
        let options = LinuxOptions::new().max_bytes(1 << 30).guard_means(guards);
        match Linux::reserve(options, &SpaceOptions::default()) {
            Ok(linux) => {
                for calls in [Calls::One, Calls::OneForEach] {
                    lines.push(measure(&linux, calls)?);
                }
            }
            Err(ReserveError::Unsupported { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(lines)
}

fn measure(linux: &Linux, calls: Calls) -> Result<Line, PlatformError> {
    let start = linux.geometry().span.start();
    let ranges: Vec<_> =
        (0..RANGES).filter_map(|index| PageRange::from_len(start + index * STRIDE, PAGES)).collect();
    let stop = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let stop = &stop;
        scope.spawn(move || {
            // A receiver that is gone has seen an error, and says so itself.
            let _ = sender.send(own_cpu_clock());
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let rounds =
            receiver.recv().map_or(Ok(Vec::new()), |clock| measure_beside(clock, linux, &ranges, calls));
        stop.store(true, Ordering::Relaxed);
        rounds
    })?;
    Ok(Line {
        guards: linux.guard_means(),
        calls,
        rounds: rounds.len(),
        ns_per_range: median(rounds.iter().map(|round| round.time.as_nanos() as u64 / RANGES)),
        interrupts_per_purge: median(rounds.iter().map(|round| round.interrupts)),
    })
}

/// Rounds that count, beside the thread of this clock.
fn measure_beside(
    clock: libc::clockid_t,
    linux: &Linux,
    ranges: &[PageRange],
    calls: Calls,
) -> Result<Vec<Round>, PlatformError> {
    let begin = Instant::now();
    let mut rounds = Vec::new();
    while rounds.len() < ROUNDS && begin.elapsed() < PATIENCE {
        rounds.extend(Some(round(clock, linux, ranges, calls)?).filter(Round::counts));
    }
    Ok(rounds)
}

fn round(
    clock: libc::clockid_t,
    linux: &Linux,
    ranges: &[PageRange],
    calls: Calls,
) -> Result<Round, PlatformError> {
    for range in ranges {
        // SAFETY: the example owns the whole span.
        unsafe { linux.map(*range, Protection::ReadWrite, ())? };
        touch(linux, *range);
    }
    let (interrupts, beside) = (shootdowns(), time_of(clock));
    let begin = Instant::now();
    match calls {
        // SAFETY: as above, and nothing uses the memory any more.
        Calls::One => unsafe { linux.unmap(ranges)? },
        // SAFETY: as above.
        Calls::OneForEach => ranges.iter().try_for_each(|range| unsafe { linux.unmap(&[*range]) })?,
    }
    // SAFETY: they were just unmapped.
    unsafe { linux.flush(ranges)? };
    let time = begin.elapsed();
    let (beside, interrupts) = (time_of(clock).saturating_sub(beside), shootdowns() - interrupts);
    Ok(Round { time, interrupts, beside })
}

/// The clock of the calling thread's CPU time, for other threads to read.
fn own_cpu_clock() -> libc::clockid_t {
    let mut clock = 0;
    // SAFETY: the thread is alive, for it calls this; `clock` is valid for a write. Should it fail,
    // the clock stays the wall clock, and every round counts.
    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
    clock
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn touch(linux: &Linux, range: PageRange) {
    for page in range.start()..range.end() {
        let addr = (page << linux.geometry().page_shift) as usize;
        // SAFETY: the page has just been mapped, by the only thread that uses this span.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(addr).write_volatile(1) };
    }
}

/// TLB shootdowns on all CPUs since the machine started; 0 where the kernel has no such line.
fn shootdowns() -> u64 {
    let mut text = String::new();
    let read = std::fs::File::open("/proc/interrupts").and_then(|mut file| file.read_to_string(&mut text));
    let line = read.ok().and_then(|_| text.lines().find_map(|line| line.trim_start().strip_prefix("TLB:")));
    let counts = line.unwrap_or("").split_whitespace().map_while(|count| count.parse::<u64>().ok());
    counts.sum()
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn as_json(lines: &[Line]) -> String {
    let figure = |value: Option<u64>| value.map_or_else(|| "null".into(), |value| value.to_string());
    let objects = lines.iter().map(|line| {
        let Line { guards, calls, rounds, ns_per_range, interrupts_per_purge } = line;
        let (ns, interrupts) = (figure(*ns_per_range), figure(*interrupts_per_purge));
        format!(
            "  {{\"guards\": \"{guards:?}\", \"calls\": \"{calls:?}\", \
             \"rounds\": {rounds}, \"ns_per_range\": {ns}, \"interrupts_per_purge\": {interrupts}}}"
        )
    });
    format!("[\n{}\n]\n", objects.collect::<Vec<_>>().join(",\n"))
}
