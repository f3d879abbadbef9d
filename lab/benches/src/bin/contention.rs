//! Counts which CPUs would wait for which on a machine with 128 CPUs, by the number of nodes.

use clap::Parser;
use std::io;
use std::process::ExitCode;
use vmalloc_bench::contention::{self, CPUS, Limits, Row};
use vmalloc_bench::output;
use vmalloc_bench::scene::{Freed, LIVE_AREAS, Scene};
use vmalloc_kit::table::table;

/// Count which CPUs would wait for which on a machine with 128 CPUs, by the number of nodes
///
/// One thread plays 128 CPUs in a schedule that repeats: in each step every CPU allocates or frees,
/// in an order drawn from a seed. Counts are locks taken for a pair of these, by what they protect:
/// the CPU's own node, other nodes, the map, and all the rest; "waited %" is how many hundredths
/// of them another CPU, or the drain, had taken first in the same step. That is
/// more than would really wait: a step counts as one moment. "drain" is what the thread that
/// drains takes for a pair. W1: 3 pages and a guard page in an empty space. W5: each CPU replaces
/// random areas of its share of 100,000 live ones, 1…64 pages. Exact: the same numbers on every
/// machine.
#[derive(Parser)]
struct Args {
    /// Numbers of nodes.
    #[arg(default_values_t = [1, 2, 4, 8, 16, 32, 64, 128], value_parser = clap::value_parser!(u16).range(1..=CPUS as i64))]
    nodes: Vec<u16>,
    /// Few steps: a look, not a measurement.
    #[arg(long)]
    quick: bool,
}

impl Args {
    fn limits(&self) -> Limits {
        if self.quick { Limits { warm_up: 20, steps: 50 } } else { Limits { warm_up: 2000, steps: 4000 } }
    }
}

fn print_table(scene: Scene, freed: Freed, rows: &[Row]) -> io::Result<()> {
    let head = ["nodes", "own node", "other nodes", "map", "rest", "waited %", "drain"];
    let cells = |row: &Row| {
        let cells = row.taken.into_iter().map(|count| format!("{count:.4}"));
        let rest = [format!("{:.3}", row.waited_percent), format!("{:.4}", row.drain)];
        std::iter::once(row.nodes.to_string()).chain(cells).chain(rest).collect()
    };
    let table = table("lr", &head, rows.iter().map(cells).collect());
    output::line(&format_args!("{scene:?}: {}; {}\n{table}\n", scene.about("CPU", LIVE_AREAS), freed.about()))
}

fn measure(args: &Args) -> io::Result<()> {
    let bar = indicatif::ProgressBar::new((args.nodes.len() * Scene::ALL.len() * Freed::ALL.len()) as u64);
    for (scene, freed) in Scene::ALL.into_iter().flat_map(|scene| Freed::ALL.map(|freed| (scene, freed))) {
        let row = |&nodes: &u16| {
            let row = contention::run(scene, freed, usize::from(nodes), &args.limits());
            bar.inc(1);
            row
        };
        let rows: Vec<_> = args.nodes.iter().map(row).collect();
        bar.suspend(|| print_table(scene, freed, &rows))?;
    }
    bar.finish_and_clear();
    Ok(())
}

fn main() -> ExitCode {
    output::end(measure(&Args::parse()))
}
