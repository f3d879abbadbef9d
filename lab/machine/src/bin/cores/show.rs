//! Tables for people.

use crate::load::{Build, Load, Outcome, most_lazy};
use std::io;
use std::path::Path;
use vmalloc_kit::table::{figure, table};
use vmalloc_lab::designs::{Name, one_purger};
use vmalloc_machine::LockStats;

/// The head of a table of [`steps`].
const STEPS: [&str; 12] = [
    "CPUs",
    "ms",
    "spinning %",
    "idle %",
    "ns a pair",
    "blocks",
    "lines",
    "map locks",
    "node held ns",
    "span pages",
    "worst hold µs",
    "worst wait µs",
];

/// Prints the same work on more and more CPUs.
pub(crate) fn scale(loads: impl Iterator<Item = Load>) {
    let outcomes: Vec<_> = loads.map(Load::run).collect();
    let Some(first) = outcomes.first() else { return };
    let table = table("r", &STEPS, outcomes.iter().map(steps).collect());
    println!("{}: {}\n{table}\n", first.load.design, about(&first.load));
}

fn steps(outcome: &Outcome) -> Vec<String> {
    let locks = outcome.report.locks();
    let worst =
        |of: fn(&LockStats) -> u64| locks.iter().map(|(_, it)| of(it)).max().unwrap_or(0) as f64 / 1e6;
    vec![
        outcome.load.cpus.to_string(),
        format!("{:.4}", outcome.ms()),
        format!("{:.2}", outcome.spinning()),
        format!("{:.2}", outcome.idle()),
        figure(outcome.a_pair(outcome.report.busy) / 1e3),
        format!("{:.1}", outcome.a_pair(outcome.report.blocks)),
        format!("{:.2}", outcome.a_pair(outcome.report.lines.passed)),
        format!("{:.4}", outcome.map_locks()),
        figure(outcome.node_hold()),
        outcome.span.to_string(),
        figure(worst(|it| it.hold_max)),
        figure(worst(|it| it.wait_max)),
    ]
}

fn about(load: &Load) -> String {
    format!("{} loops, run_test_mask={}; blocks, lines and locks a pair", load.loops, load.mask)
}

/// Prints what was waited for.
pub(crate) fn locks(outcome: &Outcome, top: usize) {
    let head = [
        "",
        "a pair",
        "waited for %",
        "% of the time",
        "held ns",
        "at most µs",
        "waits at most µs",
        "tries failed",
    ];
    let row = |(name, it): (String, LockStats)| {
        let taken = it.taken.max(1) as f64;
        vec![
            name,
            format!("{:.4}", outcome.a_pair(it.taken)),
            format!("{:.2}", 100.0 * it.waited as f64 / taken),
            format!("{:.2}", outcome.of_busy(it.wait)),
            figure(it.hold as f64 / 1e3 / taken),
            figure(it.hold_max as f64 / 1e6),
            figure(it.wait_max as f64 / 1e6),
            it.refused.to_string(),
        ]
    };
    print_head(outcome);
    println!("{}\n", table("lr", &head, outcome.report.locks().into_iter().map(row).collect()));
    println!(
        "{}\n",
        table("lr", &head, outcome.report.lock_sites().into_iter().take(top).map(row).collect())
    );
}

/// Prints what was lost to cache lines.
pub(crate) fn lines(outcome: &Outcome, top: usize) {
    let row = |(name, it): (String, vmalloc_machine::LineStats)| {
        let [lost, queued] = [it.lost, it.queued].map(|time| outcome.a_pair(time) / 1e3);
        let passed = format!("{:.4}", outcome.a_pair(it.passed));
        vec![name, passed, figure(lost), figure(queued), format!("{:.2}", outcome.of_busy(it.lost))]
    };
    let sites = outcome.report.line_sites();
    let head = ["", "lines a pair", "ns a pair", "queued ns", "% of the time"];
    print_head(outcome);
    let all = std::iter::once(("all".to_owned(), outcome.report.lines)).chain(sites.into_iter().take(top));
    println!("{}\n", table("lr", &head, all.map(row).collect()));
}

fn print_head(outcome: &Outcome) {
    let Load { design, cpus, .. } = outcome.load;
    let (ms, spinning, idle) = (outcome.ms(), outcome.spinning(), outcome.idle());
    println!("{design} on {cpus} CPUs, {}", about(&outcome.load));
    println!("{ms:.4} ms, {spinning:.2} % spinning, {idle:.2} % idle\n");
}

/// Prints the most lazy pages that there were.
pub(crate) fn lazy(cpus: &[usize], pairs: u64) {
    let designs: [Build; 3] = [
        |setup| one_purger(setup, true),
        |setup| one_purger(setup, false),
        |setup| Name::Vmalloc.build(setup),
    ];
    let rows = cpus.iter().map(|&cpus| {
        let most = designs.map(|design| most_lazy(design, cpus, pairs));
        let cells = most.iter().map(|(_, most)| most.to_string());
        [cpus.to_string(), most[0].0.to_string()].into_iter().chain(cells).collect()
    });
    let head = ["CPUs", "limit", "always offered", "unless many, 2018", "ours"];
    println!("Most lazy pages in {pairs} pairs of 2 pages\n{}\n", table("r", &head, rows.collect()));
}

/// The designs of F5, oldest first.
pub(crate) const F5: [Name; 4] = [Name::Augmented, Name::Nodes, Name::Vmalloc, Name::VmallocCached];

/// The CPUs of the machine that the lab runs on, whose F5 is compared with ours.
const REAL_CPUS: usize = 2;

/// Prints F5, beside what the real CPUs made of it.
pub(crate) fn f5(cpus: usize, loops: u64, real: Option<&Path>, line: Option<u64>) -> io::Result<()> {
    let load = if cpus <= REAL_CPUS { Load::reproduced } else { Load::published };
    let outcomes = F5.map(|design| {
        let load = load(design, cpus, loops);
        let costs = line.map_or(load.costs, |line| load.costs.with_line(line));
        Load { costs, ..load }.run()
    });
    let row = |outcome: &Outcome| {
        vec![
            outcome.load.design.to_string(),
            format!("{:.4}", outcome.ms()),
            format!("{:.2}", outcome.spinning()),
            format!("{:.2}", outcomes[0].ms() / outcome.ms()),
        ]
    };
    println!("F5 on {cpus} CPUs, {}", about(&outcomes[0].load));
    println!("Published, 64 threads on 32 CPUs: 93.07 % → 16.51 %, 12.7 ×\n");
    let head = ["", "ms", "waiting for locks %", "times as fast as augmented"];
    println!("{}\n", table("lr", &head, outcomes.iter().map(row).collect()));
    real.map_or(Ok(()), |file| beside(&outcomes, &std::fs::read_to_string(file)?))
}

/// How far the machine may be from the real CPUs: points of waiting, and a factor of gains.
const APART: (f64, f64) = (10.0, 1.5);

/// Prints what two real CPUs made of the same, and what is further apart than it may be.
fn beside(outcomes: &[Outcome; 4], json: &str) -> io::Result<()> {
    let first = &outcomes[0];
    let mut rows = Vec::new();
    for outcome in &outcomes[1..3] {
        let names = format!("2 threads, {} → {}: ", first.load.design, outcome.load.design);
        let share = [first.spinning(), outcome.spinning()];
        let gain = first.ms() / outcome.ms();
        if let Some(real) = pair(json, &format!("{names}waiting for locks")) {
            let apart = share.iter().zip(real).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let text = |[from, to]: [f64; 2]| format!("{from:.1} → {to:.1} %");
            rows.push((format!("{names}waiting"), text(real), text(share), apart <= APART.0));
        }
        if let Some([from, to]) = pair(json, &format!("{names}time")) {
            let real = from / to;
            let apart = (gain / real).max(real / gain);
            rows.push((
                format!("{names}time"),
                format!("{real:.2} ×"),
                format!("{gain:.2} ×"),
                apart <= APART.1,
            ));
        }
    }
    if rows.is_empty() {
        return Err(io::Error::other("this is no output of `vmalloc-lab reproduce f5 --json`"));
    }
    let verdict = |is_near| if is_near { "near" } else { "APART" }.to_owned();
    let rows = rows.into_iter().map(|(name, real, ours, is_near)| vec![name, real, ours, verdict(is_near)]);
    let head = ["", "real CPUs", "virtual CPUs", "within 10 points, 1.5 ×"];
    println!("{}\n", table("l", &head, rows.collect()));
    if let Some((_, note)) = json.split_once(DISTURBED) {
        println!("Real CPUs: {DISTURBED}{}\n", note.split('"').next().unwrap_or_default());
    }
    Ok(())
}

/// How a note of `vmalloc-lab reproduce f5` begins that tells whether its figures mean something.
const DISTURBED: &str = "Other programs used the CPUs";

/// Returns what was measured before and after, in a claim of a report of JSON.
fn pair(json: &str, claim: &str) -> Option<[f64; 2]> {
    let rest = &json[json.find(claim)?..];
    let number = |name: &str| {
        let text = &rest[rest.find(name)? + name.len()..];
        let text = text.trim_start_matches(['"', ':', ' ']);
        let end = text.find(|it: char| !it.is_ascii_digit() && !".e-".contains(it))?;
        text[..end].parse().ok()
    };
    Some([number("\"before\"")?, number("\"after\"")?])
}
