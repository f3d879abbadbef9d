//! Programs and tests of others, without the library and with it.

use crate::programs::{self, Program};
use crate::{Setup, kept, loads, not_run, python, sources, tools};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Output;

/// Runs what has `only` in its name, or a part of that, and compares.
///
/// # Errors
/// There are differences, or something can't be run.
pub fn run(library: &Path, is_quick: bool, only: &str) -> Result<()> {
    let runs = &Setup::of_suites(library);
    let mut differences = 0;
    for program in programs::all()?.iter().filter(|program| program.name.contains(only)) {
        differences += compare_program(program, runs)?;
    }
    for load in loads::servers().iter().filter(|load| load.name.contains(only) && load.is_there()) {
        differences += runs.iter().filter(|setup| !answers_well(load, setup)).count();
    }
    let is_wanted = |module: &&str| "python".contains(only) || module.contains(only);
    let modules: Vec<_> = python::modules(is_quick).iter().copied().filter(is_wanted).collect();
    if !modules.is_empty() {
        differences += compare_python(&modules, runs)?;
    }
    let packages: &[_] = if is_quick { &["mimalloc"] } else { &["mimalloc", "glibc", "redis", "sqlite3"] };
    for package in packages.iter().filter(|package| format!("tests of {package}").contains(only)) {
        differences += compare_tests(package, runs)?;
    }
    ensure!(differences == 0, "{differences} differences to the runs without the library");
    Ok(())
}

fn output(program: &Program, setup: &Setup<'_>) -> Result<Output> {
    let mut command = setup.command(&program.words[0]);
    command.args(&program.words[1..]).env("LC_ALL", "C");
    command.output().with_context(|| format!("can't run {}", program.name))
}

fn compare_program(program: &Program, runs: &[Setup<'_>]) -> Result<usize> {
    if !tools::is_installed(program.needs) {
        not_run(format!("preload {}", program.name), format!("{} is not installed", program.needs));
        return Ok(0);
    }
    let without = output(program, &Setup::NONE)?;
    let mut differences = 0;
    for setup in runs {
        let (name, with) = (setup.name, output(program, setup)?);
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

/// Runs a server, which verifies what it answers.
fn answers_well(load: &loads::Load, setup: &Setup<'_>) -> bool {
    let answered = load.run(setup);
    let told = match &answered {
        Ok(cost) => format!("same (all answers verified, peak {:.0} MiB)", cost.peak_mib),
        Err(error) => format!("DIFFERS: {error:#}"),
    };
    println!("{:18} {:15} {told}", load.name, setup.name);
    answered.is_ok()
}

fn compare_python(modules: &[&str], runs: &[Setup<'_>]) -> Result<usize> {
    let Some(python) = python::find() else {
        not_run("preload CPython", "no Python here has its tests (libpython3-testsuite)");
        return Ok(0);
    };
    // They remove folders where they run: test_zipfile one that is called `target`.
    let folder = kept()?;
    let (mut totals, mut differences) = (vec![0; runs.len()], 0);
    for &module in modules {
        let without = python::run(python, module, &folder, &Setup::NONE);
        for (nth, setup) in runs.iter().enumerate() {
            let (name, with) = (setup.name, python::run(python, module, &folder, setup));
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
fn compare_tests(package: &str, runs: &[Setup<'_>]) -> Result<usize> {
    let Some(tests) = sources::tests(package)?.filter(|tests| !tests.is_empty()) else {
        not_run(
            format!("preload tests of {package}"),
            "its source package or a tool for it is not to be had",
        );
        return Ok(0);
    };
    let (mut differences, mut failing) = (0, Vec::new());
    for test in &tests {
        let without = sources::run(test, &Setup::NONE)?.status;
        if !without.success() {
            failing.push(test.name.as_str());
        }
        for setup in runs {
            let (name, with) = (setup.name, sources::run(test, setup)?);
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
