//! Measures memory as large programs use it, ours and the peers in one run.

use clap::Parser;
use indicatif::ProgressBar;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::memory::{self, GROUPS, Group, Row};
use vmalloc_bench::output;
use vmalloc_bench::rounds::Limits;
use vmalloc_kit::table::{figure, table};

/// Measure memory as large programs use it: big areas, pools of pages, slots, stacks
///
/// CPU time, system time included; medians of interleaved rounds. The loads and their bars are
/// described in docs/memory.md.
#[derive(Parser)]
struct Args {
    /// Only these groups: sizes, steady, arrays, growth, pages, slots, stacks, traps.
    groups: Vec<String>,
    /// Print a list of objects instead of tables.
    #[arg(long)]
    json: bool,
    /// Three short rounds: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Play one load with one allocator, and print the figures: their names, and two sizes.
    #[arg(long, hide = true, num_args = 4)]
    alone: Option<Vec<String>>,
    /// Rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

impl Args {
    fn limits(&self) -> Limits {
        let rounds = if self.quick { 3 } else { usize::from(self.rounds) };
        Limits { rounds, window: Duration::from_millis(if self.quick { 10 } else { 60 }) }
    }

    fn wants(&self, group: &Group) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|name| name == group.name)
    }
}

fn print_table(group: &Group, rows: &[Row]) -> io::Result<()> {
    let head = [group.name, "design", "figure", "unit", "must"];
    let must = |row: &Row| match row.must {
        Some(must) if row.value <= must => format!("≤ {must}"),
        Some(must) => format!("≤ {must}: MISSED"),
        None => String::new(),
    };
    let line = |row: &Row| {
        vec![row.load.clone(), row.design.clone(), figure(row.value), row.unit.to_owned(), must(row)]
    };
    output::line(&format_args!("{}\n", table("llrll", &head, rows.iter().map(line).collect())))
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some([load, allocator, sizes @ ..]) = args.alone.as_deref() {
        let [size, replaced] = [0, 1].map(|nth| sizes[nth].parse().unwrap_or(0));
        let figures = memory::alone::play(load, allocator, size, replaced);
        return output::end(output::line(&serde_json::json!(figures)));
    }
    let groups: Vec<&Group> = GROUPS.iter().filter(|group| args.wants(group)).collect();
    if let Some(name) = args.groups.iter().find(|name| !GROUPS.iter().any(|group| group.name == **name)) {
        return output::fail(&format_args!("there is no group {name:?}"));
    }
    let bar = ProgressBar::new(groups.len() as u64);
    let (mut all, mut written) = (Vec::new(), Ok(()));
    for group in groups {
        let rows = (group.run)(&args.limits());
        if !args.json {
            written = written.and(bar.suspend(|| print_table(group, &rows)));
        }
        all.extend(rows);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        written = output::line(&format_args!("{:#}", serde_json::json!(all)));
    }
    output::end(written)
}
