//! Measures the address allocators: ours, its peers from crates.io and two baselines, all in one
//! run.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::contest::{self, Limits, Row, Tail};
use vmalloc_bench::heap::CountingHeap;
use vmalloc_bench::output;
use vmalloc_bench::rounds::RoundsOptions;
use vmalloc_bench::workload::{self, Cycle, Workload};
use vmalloc_kit::table::{figure, table};

#[global_allocator]
static HEAP: CountingHeap = CountingHeap;

/// Measure address allocators side by side
///
/// For each workload: CPU time of one pair (one allocation and one free; for W7 one lookup) as the
/// median of interleaved rounds, its ratio to ours, the pages from the base to the highest live end
/// over the live pages, and metadata bytes per live area as taken from the heap (without what the
/// caller has to keep: an address for ours, also a length or a node number for most others).
/// "(loop alone)" is the measured loop without any allocator; it is part of every other figure.
#[derive(Parser)]
struct Args {
    /// Workloads to run, by name or, where no name is that, by the start of one; all when none is
    /// named.
    names: Vec<String>,
    /// Also those that are else left out (W5-100k-1, and the large …-10M, which take minutes),
    /// among those named by their start or all; with a cap of 60 s.
    #[arg(long)]
    large: bool,
    /// Only these allocators besides ours, by the start of their name; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Instead how long single pairs take: wall time, quantiles of a million as medians of the
    /// rounds; "max" is the slowest pair of the round in which that was fastest, "worst" of that in
    /// which it was slowest. Ours is drained by its callers or, where that is said, by a thread.
    #[arg(long, requires = "names")]
    tail: bool,
    #[command(flatten)]
    measured: RoundsOptions,
}

impl Args {
    fn limits(&self) -> Limits {
        let (quick, rounds) = (self.measured.quick, self.measured.limits());
        let seconds = if quick { 1 } else { [5, 60][usize::from(self.large)] };
        let (cap, timed_iterations) = (Duration::from_secs(seconds), if quick { 20_000 } else { 1_000_000 });
        Limits { rounds, cap, timed_iterations }
    }

    fn wants(&self, allocator: &str) -> bool {
        let named = |name: &String| starts_with(allocator, name);
        self.only.is_empty() || allocator.starts_with("vmalloc") || self.only.iter().any(named)
    }

    /// The workloads named, or the name that none answers to.
    fn workloads(&self) -> Result<Vec<&'static Workload>, &str> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let names = if names.is_empty() { vec![""] } else { names };
        let answers = |workload: &Workload, name: &str| match Workload::named(name) {
            Some(exact) => exact.name == workload.name,
            None => starts_with(workload.name, name) && (self.large || !workload.large),
        };
        match names.iter().find(|name| !timed().any(|it| answers(it, name))) {
            Some(unknown) => Err(unknown),
            None => Ok(timed().filter(|it| names.iter().any(|name| answers(it, name))).collect()),
        }
    }
}

/// All workloads but the worst call, of which only instructions are counted.
fn timed() -> impl Iterator<Item = &'static Workload> {
    workload::ALL.iter().filter(|workload| workload.cycle != Cycle::WorstCall)
}

fn starts_with(whole: &str, start: &str) -> bool {
    whole.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn print_table(workload: &Workload, rows: &[Row]) -> io::Result<()> {
    let head = ["allocator", "ns", "ratio", "span/live", "B/area", "note"];
    let cells = |row: &Row| {
        let figures = [row.ns, row.ratio, row.span_per_live, row.bytes_per_area];
        let note = row.note.clone().unwrap_or_default();
        let name = std::iter::once(row.allocator.to_owned());
        name.chain(figures.into_iter().map(figure)).chain([note]).collect()
    };
    let table = table("lrrrrl", &head, rows.iter().map(cells).collect());
    output::line(&format_args!("{}: {}\n{table}\n", workload.name, workload.about))
}

fn print_tails(workload: &Workload, rows: &[Tail]) -> io::Result<()> {
    let head = ["allocator", "p50", "p99", "p99.9", "p99.99", "max", "worst"];
    let cells = |row: &Tail| {
        let name = std::iter::once(row.allocator.to_owned());
        name.chain(row.ns.into_iter().map(figure)).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    output::line(&format_args!("{}: {}\n{table}\n", workload.name, workload.about))
}

fn progress_bar(workloads: &[&Workload]) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg} {pos}/{len} workloads {elapsed}");
    let bar = ProgressBar::new(workloads.len() as u64);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let workloads = match args.workloads() {
        Ok(workloads) => workloads,
        Err(name) => {
            let known: Vec<_> = timed().map(|workload| workload.name).collect();
            return output::fail(&format_args!(
                "no workload starts with {name:?}; there are {}",
                known.join(", ")
            ));
        }
    };
    output::end(if args.tail { time_pairs(&args, &workloads) } else { measure(&args, workloads) })
}

fn time_pairs(args: &Args, workloads: &[&Workload]) -> io::Result<()> {
    let mut all = Vec::new();
    for workload in workloads {
        let rows = contest::tails(workload, &args.limits(), &|name| args.wants(name));
        if !args.measured.json {
            print_tails(workload, &rows)?;
        }
        all.extend(rows);
    }
    if args.measured.json { output::line(&serde_json::to_string_pretty(&all)?) } else { Ok(()) }
}

fn measure(args: &Args, workloads: Vec<&'static Workload>) -> io::Result<()> {
    let bar = progress_bar(&workloads);
    let mut all = Vec::new();
    for workload in workloads {
        let progress = |step: &str| bar.set_message(format!("{}: {step}", workload.name));
        let rows = contest::run(workload, &args.limits(), &|name| args.wants(name), &progress);
        bar.inc(1);
        if !args.measured.json {
            bar.suspend(|| print_table(workload, &rows))?;
        }
        all.extend(rows);
    }
    bar.finish_and_clear();
    if args.measured.json {
        output::line(&serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}
