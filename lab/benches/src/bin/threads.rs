//! Measures one space under many threads.

use clap::Parser;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc::SpaceOptions;
use vmalloc_bench::scene::{Freed, LIVE_AREAS, Scene};
use vmalloc_bench::threads::{self, Drain, Limits, Row};
use vmalloc_bench::{line, output};
use vmalloc_kit::table::{figure, table};

/// Measure one space under many threads
///
/// Millions of pairs (one allocation and one free) a second of all threads together, as the median
/// of interleaved rounds, its range, and its ratio to the first number of threads. W1: 3 pages and
/// a guard page in an empty space. W5: each thread replaces random areas of its share of the live
/// ones, 1…64 pages. No memory is behind the addresses; the loop and its
/// random numbers are part of the figures. Each scene is played twice: with callers that purge, and
/// with a thread that drains.
///
/// Below each table stands how long a cache line takes from one core to another, before and after:
/// compare runs where it is the same. A hypervisor may move cores apart.
#[derive(Parser)]
struct Args {
    /// Numbers of threads.
    #[arg(default_values_t = [1, 2, 4, 64], value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Unmap what is freed, instead of keeping some of it for reuse.
    #[arg(long)]
    unmap: bool,
    /// Short rounds: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Areas that are live in W5.
    #[arg(long, default_value_t = LIVE_AREAS)]
    live: usize,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

fn print_table(freed: Freed, live: usize, rows: &[Row], lines: [Option<Duration>; 2]) -> io::Result<()> {
    let Some(Row { scene, drain, .. }) = rows.first() else { return Ok(()) };
    let title = format!("{scene:?}: {}; {}; {}", scene.about("thread", live), drain.about(), freed.about());
    let head = ["threads", "M pairs/s", "lowest", "highest", "ratio"];
    let cells = |row: &Row| {
        let [lowest, highest] = row.range;
        let figures = [row.mpairs_per_s, lowest, highest, row.ratio];
        std::iter::once(row.threads.to_string()).chain(figures.into_iter().map(figure)).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    let [before, after] = lines.map(|line| line.map_or(0, |line| line.as_nanos()));
    output::line(&format_args!("{title}\n{table}\na line: {before} ns before, {after} ns after\n"))
}

fn measure(args: &Args) -> io::Result<()> {
    let freed = if args.unmap { Freed::Unmapped } else { Freed::Cached };
    let window = Duration::from_millis(if args.quick { 20 } else { 500 });
    let options = freed.options(SpaceOptions::default());
    let limits = Limits { rounds: usize::from(args.rounds), window, live: args.live, options };
    let numbers: Vec<_> = args.threads.iter().map(|&threads| usize::from(threads)).collect();
    let bar = indicatif::ProgressBar::new_spinner();
    for (scene, drain) in Scene::ALL.into_iter().flat_map(|scene| Drain::ALL.map(|drain| (scene, drain))) {
        let progress = |step: &str| {
            bar.set_message(format!("{scene:?}, {}: {step}", drain.about()));
            bar.tick();
        };
        let before = line::passed();
        let rows = threads::run(scene, drain, &numbers, &limits, &progress);
        let lines = [before, line::passed()];
        bar.suspend(|| print_table(freed, args.live, &rows, lines))?;
    }
    bar.finish_and_clear();
    Ok(())
}

fn main() -> ExitCode {
    output::end(measure(&Args::parse()))
}
