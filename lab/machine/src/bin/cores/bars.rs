//! The rows that docs/cores.toml has bars for. Each number is one that should fall.

use crate::load::{Load, Outcome};
use vmalloc_lab::designs::Name;

/// Loops of a short run, and of a long one.
const SHORT: u64 = 64_000;
const LONG: u64 = 512_000;
/// The steps at which time has to fall.
const STEPS: [usize; 5] = [1, 2, 8, 32, 128];

/// Prints them as an object of rows, each an object of numbers.
pub(crate) fn rows(quick: bool) {
    let rows = if quick { quick_rows() } else { [quick_rows(), f5(), long_rows(), short_rows()].concat() };
    println!("{{\n{}\n}}", rows.join(",\n"));
}

/// A row by its name.
fn row(name: &str, numbers: &[(&str, f64)]) -> String {
    let numbers: Vec<_> = numbers.iter().map(|(name, number)| format!("\"{name}\": {number:.4}")).collect();
    format!("\"{name}\": {{ {} }}", numbers.join(", "))
}

fn name(load: &Load) -> String {
    let run = if load.loops == LONG { "long" } else { "short" };
    let cpus = if load.cpus == 1 { "CPU" } else { "CPUs" };
    format!("{}, {} {cpus}, {run}", load.design, load.cpus)
}

fn run(design: Name, cpus: usize, loops: u64) -> Outcome {
    Load::published(design, cpus, loops).run()
}

/// Returns the row of a run of ours, with its time over that of nodes.
fn ours(outcome: &Outcome, nodes: &Outcome) -> String {
    row(
        &name(&outcome.load),
        &[
            ("time", outcome.ms() / nodes.ms()),
            ("spinning", outcome.spinning()),
            ("idle", outcome.idle()),
            ("blocks", outcome.a_pair(outcome.report.blocks)),
            ("lines", outcome.a_pair(outcome.report.lines.passed)),
            ("map_locks", outcome.map_locks()),
            ("node_held_ns", outcome.node_hold()),
            ("span", outcome.span as f64),
        ],
    )
}

fn quick_rows() -> Vec<String> {
    let nodes = run(Name::Nodes, 8, SHORT);
    [Name::Vmalloc, Name::VmallocCached].map(|design| ours(&run(design, 8, SHORT), &nodes)).to_vec()
}

fn f5() -> Vec<String> {
    let [before, after] = [Name::Augmented, Name::Nodes].map(|design| run(design, 32, LONG));
    let numbers = [
        ("nodes_over_augmented", after.ms() / before.ms()),
        ("augmented_not_spinning", 100.0 - before.spinning()),
        ("nodes_spinning", after.spinning()),
    ];
    vec![row("F5, 32 CPUs, long", &numbers), ours(&run(Name::Vmalloc, 32, LONG), &after)]
}

fn long_rows() -> Vec<String> {
    let at = |cpus| ours(&run(Name::Vmalloc, cpus, LONG), &run(Name::Nodes, cpus, LONG));
    [8, 128].map(at).to_vec()
}

/// Short runs at the steps that are not elsewhere, and whether time falls from step to step.
fn short_rows() -> Vec<String> {
    let mut rows = Vec::new();
    let nodes = STEPS.map(|cpus| run(Name::Nodes, cpus, SHORT));
    for design in [Name::Vmalloc, Name::VmallocCached] {
        let steps = STEPS.map(|cpus| run(design, cpus, SHORT));
        let slower = steps.windows(2).map(|pair| pair[1].ms() / pair[0].ms()).fold(0.0, f64::max);
        rows.push(row(&format!("{design}, steps, short"), &[("slower", slower)]));
        let both = steps.iter().zip(&nodes).filter(|(it, _)| it.load.cpus != 8);
        rows.extend(both.map(|(outcome, nodes)| ours(outcome, nodes)));
    }
    let alone = Load { mask: 1, ..Load::published(Name::Vmalloc, 1, SHORT) }.run();
    rows.push(row("vmalloc, 1 CPU, one-page areas", &[("blocks", alone.a_pair(alone.report.blocks))]));
    rows
}
