//! Measures memory as large programs use it, ours and the peers in one run.

use clap::Parser;
use indicatif::ProgressBar;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::memory::{self, GROUPS, Group, Row};
use vmalloc_bench::output;
use vmalloc_bench::rounds::Limits;
use vmalloc_lab::table::{figure, table};

/// Measure memory as large programs use it: big areas, pools of pages, slots, stacks
///
/// CPU time, system time included; medians of interleaved rounds. The loads and their bars are
/// described in docs/memory.md.
#[derive(Parser)]
struct Args {
    /// Only these groups: sizes, arrays, growth, pages, slots, stacks, traps.
    groups: Vec<String>,
    /// Print a list of objects instead of tables.
    #[arg(long)]
    json: bool,
    /// Three short rounds: a look, not a measurement.
    #[arg(long)]
    quick: bool,
    /// Play the arrays with the one allocator of this name, and print the figures.
    #[arg(long, hide = true, value_name = "NAME")]
    arrays_of: Option<String>,
    /// How many arrays that replaces.
    #[arg(long, hide = true, default_value_t = 1500)]
    replaced: usize,
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
    let head = [group.name, "design", "figure", "unit"];
    let line = |row: &Row| vec![row.load.clone(), row.design.clone(), figure(row.value), row.unit.to_owned()];
    output::line(&format_args!("{}\n", table("llrl", &head, rows.iter().map(line).collect())))
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(name) = &args.arrays_of {
        let figures = memory::arrays::alone(name, args.replaced);
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
