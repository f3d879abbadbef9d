//! Measures what Hermit's tasks, buffers and mappings cost, in kernels as published and with `vmalloc` that are booted in turn.

use hermit_client::{Cpus, Error, Hermit, Kernels, Row, boot, build, provide};

/// Boots of each kernel. Instructions are counted, so that boots differ by interrupts alone.
const ROUNDS: usize = 3;

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
    let kernels = [build(Hermit::Published)?, build(Hermit::OnVmalloc)?];
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (kernels, rounds) in kernels.iter().zip(&mut rounds) {
            rounds.push(measure(kernels)?);
        }
    }
    println!("Instructions of the emulated CPU; medians of {ROUNDS} boots of each kernel.");
    println!("| what | Hermit 0.11.0 | on vmalloc | gain |");
    println!("|---|---|---|---|");
    let [theirs, ours] = rounds.map(medians);
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs.what, ours.what, "both kernels measure the same");
        let gain = theirs.count as f64 / ours.count.max(1) as f64;
        println!("| {} | {} | {} | {gain:.2} × |", theirs.what, theirs.count, ours.count);
    }
    Ok(())
}

fn measure(kernels: &Kernels) -> Result<Vec<Row>, Error> {
    let report = boot(&kernels["measure"], Cpus::Counted)?;
    match report.has_succeeded {
        true => Ok(report.rows("BENCH")),
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
