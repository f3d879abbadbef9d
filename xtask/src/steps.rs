//! A run of steps: two at a time, one report, and the list of what was not run.

use crate::step::{Counts, Done, Name, Place, Step};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::env;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Ends a chore that can't do its work here. A run of steps notes that, and goes on.
///
/// # Errors
/// Outside of such a run: a chore that did nothing is no success.
pub(crate) fn nothing_ran(what: &str, why: impl Display) -> Result<()> {
    vmalloc_harness::not_run(what, &why);
    match env::var_os("VMALLOC_NOT_RUN") {
        Some(_) => Ok(()),
        None => bail!("nothing was run of {what}: {why}"),
    }
}

/// How many steps run at once.
const WORKERS: usize = 2;

/// The steps that have begun, and those that have ended.
#[derive(Default)]
struct State {
    begun: BTreeSet<Name>,
    done: Vec<Done>,
    broken: Option<anyhow::Error>,
}

/// Runs the steps, each for `limit_s` seconds at most, and prints a report, which it also writes to `target/NAME/report.txt`.
///
/// # Errors
/// If a step fails, or if something was not run that the file `may_be_missing` does not list.
pub(crate) fn run(name: &str, steps: &[Step], limit_s: u64, may_be_missing: Option<&Path>) -> Result<()> {
    let logs = Path::new("target").join(name);
    fs::create_dir_all(&logs).with_context(|| format!("can't make {}", logs.display()))?;
    let not_run = std::path::absolute(logs.join("not-run.txt"))?;
    fs::write(&not_run, "")?;
    let place = Place { logs, not_run, limit_s };
    let start = Instant::now();
    let done = work(steps, &place)?;
    let mut report = table(&done);
    report += &format!("{} s on the clock\n", start.elapsed().as_secs());
    let counts = done.iter().fold(Counts::default(), |sum, step| sum.plus(step.counts));
    report += &format!("{} schedules explored\n", counts.schedules);
    report += &format!("{} passed, {} failed, {} skipped\n", counts.passed, counts.failed, counts.skipped);
    let (listed, unlisted) = sort_not_run(&place.not_run, may_be_missing)?;
    report += &list("not run, and listed as what may be missing", &listed);
    report += &list("NOT RUN", &unlisted);
    print!("\n{report}");
    fs::write(place.logs.join("report.txt"), &report)?;
    let failed: Vec<_> = done.iter().filter(|step| !step.passed).map(|step| &*step.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    if !unlisted.is_empty() {
        bail!("{} were not run, and may not be missing", unlisted.len());
    }
    Ok(())
}

/// Runs all steps, each as soon as those before it have passed.
fn work(steps: &[Step], place: &Place) -> Result<Vec<Done>> {
    let (state, changed) = (Mutex::new(State::default()), Condvar::new());
    let worker = || {
        let mut held = state.lock().unwrap_or_else(PoisonError::into_inner);
        while held.broken.is_none() && held.begun.len() < steps.len() {
            let Some(step) = steps.iter().find(|step| is_ready(step, steps, &held)) else {
                held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            held.begun.insert(step.name.clone());
            let blocked =
                step.after.iter().any(|name| held.done.iter().any(|it| it.name == *name && !it.passed));
            drop(held);
            let ended = if blocked { Ok(step.not_begun()) } else { step.run(place) };
            held = state.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(done) => held.done.push(done),
                Err(error) => held.broken = Some(error),
            }
            changed.notify_all();
        }
    };
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(worker))));
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.broken.map_or(Ok(state.done), Err)
}

/// Returns true if a step has not begun, and all of `steps` that it waits for have ended.
fn is_ready(step: &Step, steps: &[Step], state: &State) -> bool {
    let has_ended = |name: &str| state.done.iter().any(|done| done.name == name);
    let is_chosen = |name: &str| steps.iter().any(|step| step.name == name);
    !state.begun.contains(&step.name) && step.after.iter().all(|name| has_ended(name) || !is_chosen(name))
}

fn table(done: &[Done]) -> String {
    let mut text =
        format!("{:40} {:>8} {:>8} {:>8} {:>8}\n", "step", "seconds", "passed", "failed", "skipped");
    for step in done {
        let Counts { passed, failed, skipped, .. } = step.counts;
        let verdict = if step.passed { "" } else { "  FAILED" };
        let seconds = step.took.as_secs();
        text += &format!("{:40} {seconds:8} {passed:8} {failed:8} {skipped:8}{verdict}\n", step.name);
    }
    let seconds = |builds: bool| -> u64 {
        done.iter().filter(|step| !builds || step.builds).map(|step| step.took.as_secs()).sum()
    };
    text + &format!(
        "{} s in all steps, of which {} build; two run at a time\n",
        seconds(false),
        seconds(true)
    )
}

fn list(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        format!("{title}: nothing\n")
    } else {
        format!("{title}:\n  {}\n", lines.join("\n  "))
    }
}

/// Returns what was not run: the lines that the list allows, and the others.
fn sort_not_run(not_run: &Path, may_be_missing: Option<&Path>) -> Result<(Vec<String>, Vec<String>)> {
    let allowed = may_be_missing.map_or(Ok(String::new()), fs::read_to_string)?;
    let lines: BTreeSet<String> = fs::read_to_string(not_run)?.lines().map(str::to_owned).collect();
    Ok(lines.into_iter().partition(|line| is_listed(line, &allowed)))
}

/// Returns true if a line of the list has the name with which a line begins.
fn is_listed(line: &str, list: &str) -> bool {
    let names = list.lines().filter(|name| !name.is_empty() && !name.starts_with('#'));
    names.map(str::trim).any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_names_of_their_own_and_wait_for_steps_that_there_are() {
        for steps in [crate::ci::all(), crate::nightly::all(1)] {
            let names: BTreeSet<_> = steps.iter().map(|step| &*step.name).collect();
            assert_eq!(names.len(), steps.len());
            assert!(steps.iter().flat_map(|step| &step.after).all(|name| names.contains(name)));
        }
    }

    #[test]
    fn what_is_listed_may_be_missing() {
        let list = "# Why\nspace::fork\n";
        assert!(is_listed("space::fork: no fork here", list));
        assert!(!is_listed("space::forks: no fork here", list) && !is_listed("# Why: x", list));
    }
}
