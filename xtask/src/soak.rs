//! `cargo xtask soak`: everything that looks for faults at random, in turn, for hours.

mod slices;

use crate::process;
use crate::words::Words;
use anyhow::{Context, Result, bail};
use slices::{Slice, slices};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const HELP: &str = "\
Fuzz, stress and explore in turn, for hours, and report

Each turn gives every slice its share of the time: the fuzz targets, the driver's stress test, explored schedules
and Miri with seeds of their own, the tests of the Linux platform, random worlds of each kind and random programs
in C. Writes what they print to target/soak, with a report that is whole after every slice, so that it may be
interrupted at any time. Ends with a failure if a slice failed.

  --hours N  How long, in hours; 0.1 is six minutes
  --slice N  Seconds of one slice";

/// What was asked for: see `HELP`.
pub(crate) struct Args {
    hours: f64,
    slice: u64,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        let args = Self {
            hours: words.maybe("--hours")?.context("--hours N says for how long")?,
            slice: words.value("--slice", 300)?,
        };
        words.end()?;
        Ok(args)
    }
}

/// Where everything is written.
const FOLDER: &str = "target/soak";

/// What became of all turns of a slice.
#[derive(Default)]
struct Sum {
    runs: u64,
    took: Duration,
    executions: u64,
    failed: u64,
}

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    let folder = PathBuf::from(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let mut slices = slices();
    slices
        .iter_mut()
        .filter(|slice| slice.missing.is_none())
        .try_for_each(|it| process::finish(&mut it.build))?;
    let (start, length) = (Instant::now(), Duration::from_secs_f64(args.hours * 3600.0));
    let mut sums: Vec<Sum> = slices.iter().map(|_| Sum::default()).collect();
    // Those of the clock, so that no two soaks have the same.
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    'soak: loop {
        for (slice, sum) in slices.iter().zip(&mut sums) {
            let left = length.saturating_sub(start.elapsed());
            if left.is_zero() {
                break 'soak;
            }
            seed += 1;
            turn(slice, sum, seed, left.min(Duration::from_secs(args.slice)))?;
        }
        write_report(&slices, &sums, start)?;
    }
    write_report(&slices, &sums, start)?;
    match sums.iter().map(|sum| sum.failed).sum() {
        0 => Ok(()),
        count => bail!("{count} slices failed; see {}", folder.display()),
    }
}

/// Runs a slice for so long.
fn turn(slice: &Slice, sum: &mut Sum, seed: u64, length: Duration) -> Result<()> {
    if let Some(reason) = &slice.missing {
        if sum.runs == 0 {
            vmalloc_harness::not_run(&slice.name, reason);
        }
        sum.runs += 1;
        return Ok(());
    }
    let log = PathBuf::from(FOLDER).join(format!("{}-{seed}.log", slice.name));
    let start = Instant::now();
    let status = run_for(slice, seed, length, &log)?;
    let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let executions = (slice.executions)(&text);
    // Without a status it was cut off: what ends by itself hangs then, and of the others what they had found is in what
    // they had said.
    let ends_by_itself = !slice.grace.is_zero();
    let found = || {
        ends_by_itself
            || ["FAILED", "panicked at", "Undefined Behavior"].iter().any(|sign| text.contains(sign))
    };
    let failed = status.map_or_else(found, |status| !status.success());
    sum.runs += 1;
    sum.took += start.elapsed();
    sum.executions += executions;
    sum.failed += u64::from(failed);
    let verdict = if failed { "FAILED" } else { "ok" };
    println!(
        "{}: {verdict}, {executions} executions, {} s, seed {seed}",
        slice.name,
        start.elapsed().as_secs()
    );
    Ok(())
}

/// Its status, or none if it had to be ended: tests that take longer than their slice are cut off, which is no fault.
fn run_for(slice: &Slice, seed: u64, length: Duration, log: &PathBuf) -> Result<Option<ExitStatus>> {
    let failed = || format!("can't run {}", slice.name);
    let file = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    let mut command: Command = (slice.command)(seed, length);
    command.stdin(Stdio::null()).stderr(file.try_clone().with_context(failed)?).stdout(file);
    let mut child = command.spawn().with_context(failed)?;
    // What ends by itself at its time has some more to say so.
    let until = Instant::now() + length + slice.grace;
    loop {
        if let Some(status) = child.try_wait().with_context(failed)? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            slices::end(&mut child).with_context(failed)?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn write_report(slices: &[Slice], sums: &[Sum], start: Instant) -> Result<()> {
    let hours = start.elapsed().as_secs_f64() / 3600.0;
    let mut text = format!(
        "soak of {hours:.2} hours\n\n{:24} {:>6} {:>9} {:>14} {:>7}\n",
        "slice", "runs", "seconds", "executions", "failed"
    );
    for (slice, sum) in slices.iter().zip(sums) {
        let (runs, failed) = (sum.runs, sum.failed);
        match &slice.missing {
            Some(reason) => text += &format!("{:24} NOT RUN: {reason}\n", slice.name),
            None => {
                text += &format!(
                    "{:24} {runs:6} {:9} {:14} {failed:7}\n",
                    slice.name,
                    sum.took.as_secs(),
                    sum.executions
                );
            }
        }
    }
    let total: u64 = sums.iter().map(|sum| sum.executions).sum();
    text += &format!("\n{total} executions, {} failed\n", sums.iter().map(|sum| sum.failed).sum::<u64>());
    let path = PathBuf::from(FOLDER).join("report.txt");
    print!("{text}");
    let written = File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("can't write {}", path.display()))
}
