//! Measures mappings of pages that are there already, and areas that grow, on Linux memory.

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use vmalloc_bench::mappings::{Row, SIZES, brief, crowd, growth, moves};
use vmalloc_bench::output;
use vmalloc_bench::rounds::Limits;
use vmalloc_kit::table::{figure, table};

/// Measure mappings of pages that are there already, and areas that grow
///
/// Four tables, medians of interleaved rounds. First: CPU time, system time included, of mapping
/// 1, 4 or 16 pages of a pool of 64 MiB, writing a byte to each, and unmapping; with mmap(2) that
/// is a new range of addresses, a call for each run of consecutive pages, and munmap(2). "calls
/// alone" maps each run over the one before and touches nothing; "touch alone" writes the bytes and
/// maps nothing. Second: pages of private memory that their owner gives up, brought together,
/// written to and brought back, by moving them or by copying; for comparison mmap(2) as in the
/// first. Third: an area grows from 1 to 64 MiB by a page at a time, which is touched; wall time.
/// Fourth: how many mappings of 4 pages can live at once, and what they take of vm.max_map_count.
#[derive(Parser)]
struct Args {
    /// Print an object instead of tables.
    #[arg(long)]
    json: bool,
    /// A look, not a measurement: one short round, up to 4 MiB, and fewer mappings at once.
    #[arg(long)]
    quick: bool,
    /// Only this table.
    #[arg(long)]
    only: Option<Table>,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// A table, by what it measures.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    /// A few pages, mapped and unmapped.
    Brief,
    /// A few pages, brought together and back.
    Moves,
    /// An area that grows.
    Growth,
    /// Mappings that live at once.
    Crowd,
}

/// Pages of 64 MiB.
const LAST: usize = 16_384;

fn times_table(rows: &[Row]) -> String {
    let sizes = SIZES.map(|size| if size == 1 { "1 page".to_owned() } else { size.to_string() });
    let ratios = sizes.iter().map(|size| format!("ratio {size}"));
    let head =
        ["pages".into(), "way".into()].into_iter().chain(sizes.iter().map(|size| format!("ns {size}")));
    let head: Vec<String> = head.chain(ratios).collect();
    let cells = |row: &Row| {
        let figures = row.ns.iter().chain(&row.ratio).map(|value| figure(*value));
        [row.pages.to_owned(), row.way.to_owned()].into_iter().chain(figures).collect()
    };
    table("llr", &head, rows.iter().map(cells).collect())
}

fn growth_table(rows: &[growth::Row]) -> String {
    let head = ["growing page by page", "µs a step", "ms in all", "ratio", "moved", ""];
    let cells = |row: &growth::Row| {
        let figures = [row.step_us, row.all_ms, row.ratio].map(figure);
        let note =
            if row.each == 1 { String::new() } else { format!("1 of {} steps made, scaled", row.each) };
        let (steps, moved) = row.moved;
        let tail = [format!("{moved} of {steps}"), note];
        [row.way.to_owned()].into_iter().chain(figures).chain(tail).collect()
    };
    table("lrrrrl", &head, rows.iter().map(cells).collect())
}

fn crowd_table(rows: &[crowd::Row]) -> String {
    let head = ["runs in 4 pages", "live", "kernel mappings", "left at the end", "refusal"];
    let cells = |row: &crowd::Row| {
        let numbers =
            [row.runs.to_string(), row.live.to_string(), row.kernel.to_string(), row.left.to_string()];
        numbers.into_iter().chain([row.refusal.clone().unwrap_or_default()]).collect()
    };
    table("rrrrl", &head, rows.iter().map(cells).collect())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let rounds = if args.quick { 1 } else { usize::from(args.rounds) };
    let limits = Limits { rounds, window: Duration::from_millis(if args.quick { 2 } else { 40 }) };
    let (wanted, last) = if args.quick { (1000, LAST / 16) } else { (100_000, LAST) };
    let is_asked = |table| args.only.is_none_or(|only| only == table);
    let brief = if is_asked(Table::Brief) { brief::run(&limits) } else { Vec::new() };
    let moves = if is_asked(Table::Moves) { moves::run(&limits) } else { Vec::new() };
    let growth = if is_asked(Table::Growth) { growth::run(rounds, last) } else { Vec::new() };
    let crowd = is_asked(Table::Crowd).then(|| crowd::RUNS.map(|runs| crowd::run(wanted, runs)));
    let crowd: Vec<_> = crowd.into_iter().flatten().collect();
    if args.json {
        let object = serde_json::json!({ "brief": brief, "moves": moves, "growth": growth, "crowd": crowd });
        return output::end(output::line(&format_args!("{object:#}")));
    }
    let tables = [
        (!brief.is_empty()).then(|| times_table(&brief)),
        (!moves.is_empty()).then(|| times_table(&moves)),
        (!growth.is_empty()).then(|| growth_table(&growth)),
        (!crowd.is_empty()).then(|| crowd_table(&crowd)),
    ];
    output::end(output::line(&tables.into_iter().flatten().collect::<Vec<_>>().join("\n\n")))
}
