//! `cargo xtask soak`: what looks for faults at random, for hours.

mod slices;

use crate::step::{Place, Ran};
use anyhow::{Context, Result, ensure};
use slices::Slice;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

/// Fuzz, stress and explore in turn, for hours, and report
///
/// Each turn gives every slice its share of the time: the fuzz targets, the driver's stress test, explored schedules
/// and Miri with seeds of their own, the tests of the Linux platform, random worlds of each kind and random programs
/// in C. Writes what they print to target/soak, with a report that is whole after every slice, so that it may be
/// interrupted at any time. Ends with a failure if a slice failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long, in hours; 0.1 is six minutes.
    #[arg(long)]
    hours: f64,
    /// Seconds of one slice.
    #[arg(long, default_value_t = 300)]
    slice: u64,
}

/// Where everything is written.
const FOLDER: &str = "target/soak";

/// What became of all turns of a slice, or why it has none.
#[derive(Default)]
struct Sum {
    runs: u64,
    took: Duration,
    executions: u64,
    failed: u64,
    missing: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    fs::create_dir_all(FOLDER).context(FOLDER)?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for slice in slices::all(0, 0) {
        match &slice.missing {
            Some(reason) => vmalloc_harness::not_run(&slice.step.name, reason),
            None => build(&slice)?,
        }
        sums.insert(slice.step.name.to_string(), Sum { missing: slice.missing, ..Sum::default() });
    }
    let (start, length) = (Instant::now(), Duration::from_secs_f64(args.hours * 3600.0));
    // That of the clock, so that no two soaks have the same.
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    while start.elapsed() < length {
        for nth in 0..sums.len() {
            let seconds = length.saturating_sub(start.elapsed()).as_secs().min(args.slice);
            seed += 1;
            let slice = slices::all(seed, seconds).swap_remove(nth);
            if seconds > 0 && slice.missing.is_none() {
                turn(&slice, sums.entry(slice.step.name.to_string()).or_default(), seed, seconds)?;
            }
        }
        report(&sums, start)?;
    }
    let failed: u64 = sums.values().map(|sum| sum.failed).sum();
    ensure!(failed == 0, "{failed} slices failed; see {FOLDER}");
    let idle = sums.iter().filter(|(_, sum)| sum.missing.is_none() && sum.executions == 0);
    let idle: Vec<_> = idle.map(|(name, _)| &name[..]).collect();
    ensure!(idle.is_empty(), "these have executed nothing: {}", idle.join(", "));
    Ok(())
}

fn place(limit_s: u64) -> Place {
    let folder = Path::new(FOLDER);
    // What a slice does not run is told where this chore is told to.
    let not_run = env::var_os("VMALLOC_NOT_RUN").map_or_else(|| folder.join("not-run.txt"), PathBuf::from);
    Place { logs: folder.into(), not_run, limit_s }
}

fn build(slice: &Slice) -> Result<()> {
    let ran = slice.build.execute(&place(3600))?;
    ensure!(ran.status.success(), "{} can't be built:\n{}", slice.step.name, ran.text);
    Ok(())
}

/// Runs a slice for so long.
fn turn(slice: &Slice, sum: &mut Sum, seed: u64, seconds: u64) -> Result<()> {
    // What ends by itself at its time has some more to say so.
    let ran = slice.step.execute(&place(seconds + slice.grace_s))?;
    let (name, executions, failed) =
        (&slice.step.name, (slice.executions)(&ran.text), has_failed(slice, &ran));
    sum.runs += 1;
    sum.took += ran.took;
    sum.executions += executions;
    sum.failed += u64::from(failed);
    let verdict = if failed { "FAILED" } else { "ok" };
    println!("{name}: {verdict}, {executions} executions, {} s, seed {seed}", ran.took.as_secs());
    if failed {
        let log = format!("{FOLDER}/{name}-{seed}-failed.log");
        fs::write(&log, &ran.text).context(log)?;
    }
    Ok(())
}

/// Returns true if a slice has found a fault. Tests that take longer than their slice are cut off, which is none: what
/// they had found is in what they had said.
fn has_failed(slice: &Slice, ran: &Ran) -> bool {
    let found = || ["FAILED", "panicked at", "Undefined Behavior"].iter().any(|sign| ran.text.contains(sign));
    let may_be_cut = slice.grace_s == 0;
    if ran.is_late() && may_be_cut { found() } else { !ran.status.success() }
}

fn report(sums: &BTreeMap<String, Sum>, start: Instant) -> Result<()> {
    let hours = start.elapsed().as_secs_f64() / 3600.0;
    let mut text = format!(
        "soak of {hours:.2} hours\n\n{:24} {:>6} {:>9} {:>14} {:>7}\n",
        "slice", "runs", "seconds", "executions", "failed"
    );
    for (name, Sum { runs, took, executions, failed, missing }) in sums {
        text += &match missing {
            Some(reason) => format!("{name:24} NOT RUN: {reason}\n"),
            None => format!("{name:24} {runs:6} {:9} {executions:14} {failed:7}\n", took.as_secs()),
        };
    }
    let total = |of: fn(&Sum) -> u64| sums.values().map(of).sum::<u64>();
    text += &format!("\n{} executions, {} failed\n", total(|it| it.executions), total(|it| it.failed));
    print!("{text}");
    fs::write(Path::new(FOLDER).join("report.txt"), &text).context(FOLDER)
}
