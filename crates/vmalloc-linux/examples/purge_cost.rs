//! What a scattered purge costs: 1024 ranges of 4 touched pages, while another thread of the program is
//! running.
//!
//! For each strategy that the kernel has, in one call and with one call a range: nanoseconds a range, and
//! interrupts of the other CPUs a call (the `TLB` line of `/proc/interrupts`, which counts those of the whole
//! machine). Medians. On a machine so busy that the other thread gets no CPU there is nobody to interrupt:
//! such a line shows no interrupts, and is void.
//!
//! `cargo run --release -p vmalloc-linux --example purge_cost [-- --json]`

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vmalloc::{PageRange, Platform, PlatformError, Protection};
use vmalloc_linux::{Guards, Linux, Options, ReserveError, Vectors};

const RANGES: u64 = 1024;
const PAGES: u64 = 4;
/// Areas keep their distance: each range ends in a guard page, and as many pages again stay mapped by nobody.
const STRIDE: u64 = 2 * PAGES;
const ROUNDS: usize = 15;

/// How the ranges are handed in.
#[derive(Clone, Copy, Debug)]
enum Calls {
    One,
    OneForEach,
}

struct Line {
    guards: Guards,
    vectors: Vectors,
    calls: Calls,
    ns_per_range: u64,
    interrupts_per_purge: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = measure_all()?;
    if std::env::args().any(|argument| argument == "--json") {
        print_json(&lines);
    } else {
        print_table(&lines);
    }
    Ok(())
}

fn measure_all() -> Result<Vec<Line>, Box<dyn std::error::Error>> {
    let mut lines = Vec::new();
    for guards in Guards::ALL {
        for vectors in Vectors::ALL {
            let options = Options::new().exactly(1 << 30).guards(guards).vectors(vectors);
            match Linux::reserve(options) {
                Ok(linux) => {
                    for calls in [Calls::One, Calls::OneForEach] {
                        lines.push(measure(&linux, calls)?);
                    }
                }
                Err(ReserveError::Unsupported { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(lines)
}

fn measure(linux: &Linux, calls: Calls) -> Result<Line, PlatformError> {
    let start = linux.span().start();
    let ranges: Vec<_> =
        (0..RANGES).filter_map(|index| PageRange::from_len(start + index * STRIDE, PAGES)).collect();
    let stop = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let rounds: Result<Vec<_>, _> = (0..ROUNDS).map(|_| round(linux, &ranges, calls)).collect();
        stop.store(true, Ordering::Relaxed);
        rounds
    })?;
    let ns = median(rounds.iter().map(|(time, _)| time.as_nanos() as u64));
    Ok(Line {
        guards: linux.guards(),
        vectors: linux.vectors(),
        calls,
        ns_per_range: ns / RANGES,
        interrupts_per_purge: median(rounds.iter().map(|(_, interrupts)| *interrupts)),
    })
}

/// One purge: how long it took, and how many interrupts the machine had meanwhile.
fn round(linux: &Linux, ranges: &[PageRange], calls: Calls) -> Result<(Duration, u64), PlatformError> {
    for range in ranges {
        // SAFETY: the example owns the whole span.
        unsafe { linux.map(*range, Protection::ReadWrite)? };
        touch(linux, *range);
    }
    let interrupts = shootdowns();
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
    Ok((time, shootdowns() - interrupts))
}

fn touch(linux: &Linux, range: PageRange) {
    for page in range.start()..range.end() {
        let addr = (page << linux.page_shift()) as usize;
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

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn print_table(lines: &[Line]) {
    println!(
        "purging {RANGES} scattered ranges of {PAGES} touched pages beside a running thread; medians of {ROUNDS}"
    );
    println!(
        "{:<10} {:<10} {:<11} {:>11} {:>17}",
        "guards", "vectors", "calls", "ns a range", "interrupts, sum"
    );
    for Line { guards, vectors, calls, ns_per_range, interrupts_per_purge } in lines {
        let [guards, vectors, calls] = [format!("{guards:?}"), format!("{vectors:?}"), format!("{calls:?}")];
        println!("{guards:<10} {vectors:<10} {calls:<11} {ns_per_range:>11} {interrupts_per_purge:>17}");
    }
}

fn print_json(lines: &[Line]) {
    let objects = lines.iter().map(|line| {
        let Line { guards, vectors, calls, ns_per_range, interrupts_per_purge } = line;
        format!(
            "  {{\"guards\": \"{guards:?}\", \"vectors\": \"{vectors:?}\", \"calls\": \"{calls:?}\", \
             \"ns_per_range\": {ns_per_range}, \"interrupts_per_purge\": {interrupts_per_purge}}}"
        )
    });
    let objects: Vec<_> = objects.collect();
    println!("[\n{}\n]", objects.join(",\n"));
}
