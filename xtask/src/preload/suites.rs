//! Programs and tests of others, without the library and with it.

use super::programs::{self, Program};
use super::{Args, python, redis, sources, tools};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Settings to run under, by name.
pub(super) type Run<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// Settings of the malloc.
pub(super) const RUNS: [Run<'_>; 2] =
    [("threshold 4096", &[("VMALLOC_THRESHOLD", "4096"), ("VMALLOC_START", "0")]), ("default", &[])];

pub(super) fn run(library: &Path, args: &Args, runs: &[Run<'_>]) -> Result<()> {
    let mut differences = 0;
    for program in programs::all()?.iter().filter(|program| program.name.contains(&args.only)) {
        differences += compare_program(program, library, runs)?;
    }
    if "redis".contains(&args.only) {
        differences += compare_redis(library, runs);
    }
    let is_wanted = |module: &&str| "python".contains(&args.only) || module.contains(&args.only);
    let modules: Vec<_> = python::modules(args.quick).iter().copied().filter(is_wanted).collect();
    if !modules.is_empty() {
        differences += compare_python(library, &modules, runs)?;
    }
    let packages: &[_] = if args.quick { &["mimalloc"] } else { &["mimalloc", "glibc", "redis", "sqlite3"] };
    for package in packages.iter().filter(|package| format!("tests of {package}").contains(&args.only)) {
        differences += compare_tests(package, library)?;
    }
    ensure!(differences == 0, "{differences} differences to the runs without the library");
    Ok(())
}

fn output(program: &Program, library: Option<&Path>, settings: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(&program.words[0]);
    command.args(&program.words[1..]).envs(settings.iter().copied()).stdin(Stdio::null()).env("LC_ALL", "C");
    command.envs(library.map(|library| ("LD_PRELOAD", library)));
    command.output().with_context(|| format!("can't run {}", program.name))
}

fn compare_program(program: &Program, library: &Path, runs: &[Run<'_>]) -> Result<usize> {
    if !tools::is_installed(program.needs) {
        vmalloc_harness::not_run(
            format!("preload {}", program.name),
            format!("{} is not installed", program.needs),
        );
        return Ok(0);
    }
    let without = output(program, None, &[])?;
    let mut differences = 0;
    for &(name, settings) in runs {
        let with = output(program, Some(library), settings)?;
        let same =
            (&with.status, &with.stdout, &with.stderr) == (&without.status, &without.stdout, &without.stderr);
        differences += usize::from(!same);
        let bytes = with.stdout.len();
        println!("{:18} {name:15} {} ({bytes} bytes, {})", program.name, verdict(same), with.status);
        if !same {
            println!("{}", String::from_utf8_lossy(&with.stderr));
        }
    }
    Ok(differences)
}

fn compare_redis(library: &Path, runs: &[Run<'_>]) -> usize {
    if !tools::is_installed("redis-server") {
        vmalloc_harness::not_run("preload redis", "redis-server is not installed");
        return 0;
    }
    let runs = runs.iter().map(|(name, settings)| match redis::load(Some(library), settings) {
        Ok(load) => {
            println!("{:18} {name:15} same (all values read back, peak {:.0} MiB)", "redis", load.peak_mib);
            0
        }
        Err(error) => {
            println!("{:18} {name:15} DIFFERS: {error}", "redis");
            1
        }
    });
    runs.sum()
}

fn compare_python(library: &Path, modules: &[&str], runs: &[Run<'_>]) -> Result<usize> {
    let Some(python) = python::find() else {
        vmalloc_harness::not_run("preload CPython", "no Python here has its tests (libpython3-testsuite)");
        return Ok(0);
    };
    // They remove folders where they run: test_zipfile one that is called `target`.
    let folder = super::scratch()?;
    let (mut totals, mut differences) = (vec![0; runs.len()], 0);
    for &module in modules {
        let without = python::run(python, module, &folder, None, &[]);
        for (nth, (name, settings)) in runs.iter().enumerate() {
            let with = python::run(python, module, &folder, Some(library), settings);
            totals[nth] += with.ran;
            let new: Vec<_> = with.failed.difference(&without.failed).collect();
            let same = new.is_empty() && with.ran == without.ran;
            differences += usize::from(!same);
            let (ran, before) = (with.ran, without.failed.len());
            println!(
                "{module:18} {name:15} {} ({ran} tests, {before} fail without it) {new:?}",
                verdict(same)
            );
        }
    }
    let totals: Vec<_> = totals.iter().map(u64::to_string).collect();
    println!("CPython: {} tests at each setting", totals.join(" and "));
    Ok(differences)
}

/// Compares how the tests of a source package end, without the library and with it.
fn compare_tests(package: &str, library: &Path) -> Result<usize> {
    let Some(tests) = sources::tests(package)?.filter(|tests| !tests.is_empty()) else {
        vmalloc_harness::not_run(
            format!("preload tests of {package}"),
            "its source package or a tool for it is not to be had",
        );
        return Ok(0);
    };
    let (mut differences, mut failing) = (0, Vec::new());
    for test in &tests {
        let without = sources::run(test, None, &[])?.status;
        if !without.success() {
            failing.push(test.name.as_str());
        }
        for (name, settings) in RUNS {
            let with = sources::run(test, Some(library), settings)?;
            // A test that passes with the library alone is none that it fails.
            if with.status != without && !with.status.success() {
                differences += 1;
                println!("{:18} {name:15} DIFFERS: {}, and {without} without", test.name, with.status);
                println!("{}", String::from_utf8_lossy(&with.stdout));
            }
        }
    }
    let count = tests.len();
    println!(
        "tests of {package}: {count} at each setting, {differences} differ; {failing:?} fail without it"
    );
    Ok(differences)
}

fn verdict(same: bool) -> &'static str {
    if same { "same" } else { "DIFFERS" }
}
