//! Measures how long single pairs take, and the slowest of them.

use clap::Parser;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::adapter::{self, Visitor};
use vmalloc_bench::output;
use vmalloc_bench::pairs::{self, Limits, Row, WORKLOADS};
use vmalloc_bench::ranges::Ranges;
use vmalloc_bench::workload::Workload;
use vmalloc_kit::table::{figure, table};

/// Measure how long single pairs take, and the slowest of them
///
/// One pair is a free and an allocation in a steady set of 100,000 live areas: of 1…64 pages, and
/// of one page. ns of wall time; the quantiles are medians of the runs, "max" is the slowest pair
/// of the run in which that was fastest, "worst" of the run in which it was slowest. "(loop alone)"
/// is the clock and the machine. Ours has the product's locks, and purges in its callers or, where
/// that is said, in a thread; "Space" names those on locks of parking_lot.
#[derive(Parser)]
struct Args {
    /// Only these allocators besides ours, by the start of their name.
    #[arg(default_values_t = ["offset-allocator", "BTreeMap best fit", "(loop alone)"].map(String::from))]
    only: Vec<String>,
    /// Short runs: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Runs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
}

impl Args {
    fn limits(&self) -> Limits {
        let pairs = if self.quick { 20_000 } else { 1_000_000 };
        Limits { runs: usize::from(self.runs), pairs, cap: Duration::from_secs(10) }
    }

    fn wants(&self, allocator: &str) -> bool {
        allocator.starts_with("vmalloc") || self.only.iter().any(|name| allocator.starts_with(name))
    }
}

struct Measure<'a> {
    args: &'a Args,
    workload: &'a Workload,
    rows: Vec<Row>,
}

impl Visitor for Measure<'_> {
    fn visit<R: Ranges + 'static>(&mut self) {
        if self.args.wants(R::NAME) {
            // One that is too slow has no row.
            self.rows.extend(pairs::run::<R>(self.workload, &self.args.limits()));
        }
    }
}

fn print_table(workload: &Workload, rows: &[Row]) -> io::Result<()> {
    let head = ["allocator", "p50", "p99", "p99.9", "p99.99", "max", "worst"];
    let cells = |row: &Row| {
        let figures = [row.p50, row.p99, row.p99_9, row.p99_99, row.least_max, row.most_max];
        let name = std::iter::once(row.allocator.to_owned());
        name.chain(figures.into_iter().map(figure)).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    output::line(&format_args!("{}: {}\n{table}\n", workload.name, workload.about))
}

fn measure(args: &Args) -> io::Result<()> {
    for workload in &WORKLOADS {
        let mut measure = Measure { args, workload, rows: Vec::new() };
        adapter::each_drained(&mut measure);
        adapter::each(workload, &mut measure);
        print_table(workload, &measure.rows)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    output::end(measure(&Args::parse()))
}
