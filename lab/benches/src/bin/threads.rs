//! Measures one space under many threads.

use clap::Parser;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc::Config;
use vmalloc_bench::output;
use vmalloc_bench::scene::Scene;
use vmalloc_bench::threads::{self, Drain, Limits, Row};
use vmalloc_lab::table::{figure, table};
use vmalloc_linux::FutexLock;

/// Measure one space under many threads
///
/// Millions of pairs (one allocation and one free) a second of all threads together, as the median
/// of interleaved rounds, its range, and its ratio to the first number of threads. "locks" is how
/// many locks a pair takes, "waited" how many of them were not free at once, from a pass of its
/// own. W1: 3 pages and a guard page in an empty space. W5: each thread replaces random areas of
/// its share of 100,000 live ones, 1…64 pages. No memory is behind the addresses; the loop and its
/// random numbers are part of the figures. Each scene is played twice: with callers that purge, and
/// with a thread that drains.
#[derive(Parser)]
struct Args {
    /// Numbers of threads.
    #[arg(default_values_t = [1, 2, 4, 64], value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Unmap what is freed, instead of keeping up to 64 MiB of it for reuse.
    #[arg(long)]
    unmap: bool,
    /// Locks of parking_lot, instead of the product's.
    #[arg(long)]
    parking_lot: bool,
    /// Print a list of objects instead of tables.
    #[arg(long)]
    json: bool,
    /// Short rounds: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

impl Args {
    fn limits(&self) -> Limits {
        let config = Config::default();
        let config = if self.unmap { config.unmap_on_free() } else { config };
        // Many time slices of each of 64 threads on two CPUs.
        let window = Duration::from_millis(if self.quick { 20 } else { 500 });
        Limits { rounds: usize::from(self.rounds), window, config }
    }
}

fn print_table(scene: Scene, drain: Drain, rows: &[Row]) -> io::Result<()> {
    let head = ["threads", "M pairs/s", "lowest", "highest", "ratio", "locks", "waited %"];
    let cells = |row: &Row| {
        let figures =
            [row.mpairs_per_s, row.range[0], row.range[1], row.ratio, row.locks_per_pair, row.waited_percent];
        let threads = std::iter::once(row.threads.to_string());
        threads.chain(figures.into_iter().map(figure)).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    output::line(&format_args!("{scene:?}: {}; {}\n{table}\n", scene.about("thread"), drain.about()))
}

fn measure(args: &Args) -> io::Result<()> {
    let threads: Vec<_> = args.threads.iter().map(|&threads| usize::from(threads)).collect();
    let bar = indicatif::ProgressBar::new_spinner();
    let mut all = Vec::new();
    let run =
        if args.parking_lot { threads::run::<parking_lot::RawMutex> } else { threads::run::<FutexLock> };
    for (scene, drain) in Scene::ALL.into_iter().flat_map(|scene| Drain::ALL.map(|drain| (scene, drain))) {
        let rows = run(scene, drain, &threads, &args.limits(), &|step| {
            bar.set_message(format!("{scene:?}, {}: {step}", drain.about()));
            bar.tick();
        });
        if !args.json {
            bar.suspend(|| print_table(scene, drain, &rows))?;
        }
        all.extend(rows);
    }
    bar.finish_and_clear();
    if args.json { output::line(&serde_json::to_string_pretty(&all)?) } else { Ok(()) }
}

fn main() -> ExitCode {
    output::end(measure(&Args::parse()))
}
