//! Measures what kernel virtual areas cost, in kernels of ostd as published and with `vmalloc` that are booted in turn.

use ostd_client::{Error, Kernel, Ostd, Row, boot, build, provide};
use std::path::Path;

/// Boots of each kernel. Instructions are counted, so that boots differ by interrupts alone.
const ROUNDS: usize = 3;
/// The row that has a bar: a range that is found behind 15,000 holes.
const WHAT: &str = "range-behind-holes";
/// The gain that this row must show.
const BAR: f64 = 20.0;

fn main() {
    match run() {
        Ok(()) => (),
        Err(Error::Missing(what)) => println!("NOT RUN: {what}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn run() -> Result<(), Error> {
    provide()?;
    let programs = [build(Ostd::Published)?, build(Ostd::OnVmalloc)?];
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (programs, rounds) in programs.iter().zip(&mut rounds) {
            rounds.push(measure(programs)?);
        }
    }
    println!(
        "A pair of alloc and free, in instructions of the emulated CPU; 15,000 holes; medians of {ROUNDS} boots of each kernel."
    );
    println!("| what | ostd 0.19.0 | on vmalloc | gain | bar |");
    println!("|---|---|---|---|---|");
    let [theirs, ours] = rounds.map(medians);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        print(theirs, ours);
    }
    Ok(())
}

fn measure(programs: &Path) -> Result<Vec<Row>, Error> {
    let report = boot(programs, Kernel::Measure)?;
    match report.is_complete && !report.rows.is_empty() {
        true => Ok(report.rows),
        false => Err(Error::Program { program: "the kernel", how: report.text }),
    }
}

/// Returns the rows with the median of each over all rounds, which have the same rows.
fn medians(rounds: Vec<Vec<Row>>) -> Vec<Row> {
    let median = |(nth, row): (usize, &Row)| {
        let mut all: Vec<u64> = rounds.iter().map(|rows| rows[nth].count).collect();
        all.sort_unstable();
        Row { count: all[all.len() / 2], ..row.clone() }
    };
    rounds[0].iter().enumerate().map(median).collect()
}

fn print(theirs: &Row, ours: &Row) {
    assert_eq!(theirs.what, ours.what, "both kernels measure the same");
    let gain = theirs.count as f64 / ours.count.max(1) as f64;
    let bar = match theirs.what.as_str() {
        WHAT if gain >= BAR => "≥ 20 ×: reached",
        WHAT => "≥ 20 ×: NOT REACHED",
        _ => "–",
    };
    println!("| {} | {} | {} | {gain:.2} × | {bar} |", theirs.what, theirs.count, ours.count);
}
