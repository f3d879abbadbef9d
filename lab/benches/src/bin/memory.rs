//! Measures memory as large programs use it, ours and the peers in one run.

use clap::Parser;
use indicatif::ProgressBar;
use std::io;
use std::process::ExitCode;
use vmalloc_bench::memory::{self, GROUPS, Group, Row};
use vmalloc_bench::output;
use vmalloc_bench::rounds::RoundsOptions;
use vmalloc_kit::table::{figure, table};

/// Measure memory as large programs use it: big areas, pools of pages, slots, stacks
///
/// CPU time, system time included; medians of interleaved rounds. The loads and their bars are
/// described in docs/memory.md. Ends with 2 where a table has a figure beyond its bar.
///
/// "mappings": 1, 4 or 16 pages of a pool of 64 MiB are mapped, a byte is written to each, and they
/// are unmapped. With mmap(2) that is a new range of addresses, a call for each run of consecutive
/// pages, and munmap(2). "calls alone" maps each run over the one before and touches nothing;
/// "touch alone" writes the bytes and maps nothing.
#[derive(Parser)]
struct Args {
    /// Only these groups: sizes, steady, arrays, growth, pages, slots, stacks, traps, mappings.
    groups: Vec<String>,
    #[command(flatten)]
    measured: RoundsOptions,
    /// Play one load with one allocator, and print the figures: their names, and two sizes.
    #[arg(long, hide = true, num_args = 4)]
    alone: Option<Vec<String>>,
}

impl Args {
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
    let (mut all, mut written, mut missed) = (Vec::new(), Ok(()), 0);
    for group in groups {
        let rows = (group.run)(&args.measured.limits());
        if !args.measured.json {
            written = written.and(bar.suspend(|| print_table(group, &rows)));
            missed += rows.iter().filter(|row| row.must.is_some_and(|must| row.value > must)).count();
        }
        all.extend(rows);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.measured.json {
        written = output::line(&format_args!("{:#}", serde_json::json!(all)));
    }
    match missed {
        0 => output::end(written),
        missed => output::fail(&format_args!("{missed} figures are beyond what they must be")),
    }
}
