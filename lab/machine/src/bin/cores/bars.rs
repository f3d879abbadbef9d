//! The rows that docs/cores.toml has bars for. Each number is one that should fall.

use crate::load::{Load, Outcome};
use vmalloc_lab::designs::Name;

/// Loops of a short run, and of a long one.
const SHORT: u64 = 64_000;
const LONG: u64 = 512_000;
/// The orders of a short run and of a long one, whose numbers are the medians: a block of code more
/// somewhere lets threads meet elsewhere, and moves a number of one order by a tenth.
const ORDERS: [u64; 2] = [9, 3];
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
    let run = if load.loops == LONG { "3 long" } else { "9 short" };
    let cpus = if load.cpus == 1 { "CPU" } else { "CPUs" };
    format!("{}, {} {cpus}, {run}", load.design, load.cpus)
}

/// Runs a design in each of the orders.
fn run(design: Name, cpus: usize, loops: u64) -> Vec<Outcome> {
    let orders = ORDERS[usize::from(loops != SHORT)];
    (0..orders).map(|orders| Load { orders, ..Load::published(design, cpus, loops) }.run()).collect()
}

fn median(of: &[Outcome], number: impl Fn(&Outcome) -> f64) -> f64 {
    let mut numbers: Vec<_> = of.iter().map(number).collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the row of runs of ours, with their time over that of nodes.
fn ours(all: &[Outcome], nodes: &[Outcome]) -> String {
    row(
        &name(&all[0].load),
        &[
            ("time", median(all, Outcome::ms) / median(nodes, Outcome::ms)),
            ("spinning", median(all, Outcome::spinning)),
            ("idle", median(all, Outcome::idle)),
            ("blocks", median(all, |it| it.a_pair(it.report.blocks))),
            ("lines", median(all, |it| it.a_pair(it.report.lines.passed))),
            ("map_locks", median(all, Outcome::map_locks)),
            ("node_held_ns", median(all, Outcome::node_hold)),
            ("span", median(all, |it| it.span as f64)),
        ],
    )
}

fn quick_rows() -> Vec<String> {
    let nodes = run(Name::Nodes, 8, SHORT);
    let both = [Name::Vmalloc, Name::VmallocCached].map(|design| ours(&run(design, 8, SHORT), &nodes));
    [both.to_vec(), vec![lived_in()]].concat()
}

/// Areas of all sizes come and go beside two threads, as in F5 of the lab.
fn lived_in() -> String {
    let [nodes, ours] = [Name::Nodes, Name::Vmalloc].map(|design| {
        let load = Load::reproduced(design, 2, SHORT);
        (0..ORDERS[1]).map(|orders| Load { orders, ..load }.run()).collect::<Vec<_>>()
    });
    let numbers = [
        ("time", median(&ours, Outcome::ms) / median(&nodes, Outcome::ms)),
        ("spinning", median(&ours, Outcome::spinning)),
        ("map_locks", median(&ours, Outcome::map_locks)),
        ("span", median(&ours, |it| it.span as f64)),
    ];
    row("vmalloc, 2 CPUs, lived in", &numbers)
}

fn f5() -> Vec<String> {
    let [before, after] = [Name::Augmented, Name::Nodes].map(|design| run(design, 32, LONG));
    let [tree, pools] = [&before[0], &after[0]];
    let numbers = [
        ("nodes_over_augmented", pools.ms() / tree.ms()),
        ("augmented_not_spinning", 100.0 - tree.spinning()),
        ("nodes_spinning", pools.spinning()),
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
        let times: Vec<_> = steps.iter().map(|all| median(all, Outcome::ms)).collect();
        let slower = times.windows(2).map(|pair| pair[1] / pair[0]).fold(0.0, f64::max);
        rows.push(row(&format!("{design}, steps, 9 short"), &[("slower", slower)]));
        let both = steps.iter().zip(&nodes).filter(|(all, _)| all[0].load.cpus != 8);
        rows.extend(both.map(|(all, nodes)| ours(all, nodes)));
    }
    let alone = Load { mask: 1, ..Load::published(Name::Vmalloc, 1, SHORT) }.run();
    rows.push(row("vmalloc, 1 CPU, one-page areas", &[("blocks", alone.a_pair(alone.report.blocks))]));
    rows
}
