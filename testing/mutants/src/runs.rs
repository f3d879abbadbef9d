//! Running the tests of a binary, without a mutant and with one.

use crate::Failure;
use crate::build::Binary;
use crate::mutant::{Explored, OF_CORE};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Some tests of a binary that take about the same time.
pub(crate) struct Part {
    pub(crate) binary: Binary,
    tests: Vec<String>,
    /// Their time without a mutant.
    pub(crate) time: Duration,
    /// So many schedules are explored, where the tests explore any.
    schedules: u32,
}

/// Results of the tests of a binary.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Told {
    /// Each with its time.
    passed: Vec<(String, Duration)>,
    failed: Vec<String>,
    /// In which test the program ended that should not have, or why it was ended.
    end: Option<String>,
}

/// Tests that are run against no mutant, and why.
pub(crate) type LeftOut = Vec<String>;

/// Bounds of the times of the tests that run together. So the quick ones of all binaries run first.
const BOUNDS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5)];
/// The most that a binary may take without a mutant.
const WITHOUT: Duration = Duration::from_secs(900);
/// KiB of memory that a program on made-up machines may take: mutants may take all that there is.
/// Those on Linux map terabytes, and have tests of limits.
const MEMORY_KIB: u64 = 4 << 20;
/// Told of a program that did not end.
const LATE: &str = "(no end in time)";
/// The time that tests may take with a mutant: some, and many times what they take without.
const SOME: Duration = Duration::from_secs(20);
const MANY: u32 = 5;

/// Runs a binary without a mutant.
pub(crate) fn measure(binary: &Binary) -> Result<Told, Failure> {
    let told = run(binary, &[], 0, (0, usize::MAX), WITHOUT)?;
    match &told.end {
        Some(end) => Err(format!("{} without a mutant: {end}", binary.name).into()),
        None => Ok(told),
    }
}

/// Returns the parts of a binary, without tests that take longer than `most`, and without those
/// that fail without a mutant: some look at the text of the sources, which the copy changes.
pub(crate) fn parts(binary: &Binary, told: &Told, most: Duration) -> (Vec<Part>, LeftOut) {
    let mut left_out: LeftOut =
        told.failed.iter().map(|test| format!("{test} fails without a mutant")).collect();
    let mut parts: [Vec<&(String, Duration)>; BOUNDS.len() + 1] = Default::default();
    for passed in &told.passed {
        let (test, time) = passed;
        match *time > most {
            true => left_out.push(format!("{test} takes {} s", time.as_secs())),
            false => parts[BOUNDS.partition_point(|bound| bound < time)].push(passed),
        }
    }
    let part = |tests: Vec<&(String, Duration)>| {
        let time = tests.iter().map(|(_, time)| *time).sum();
        Part {
            binary: binary.clone(),
            tests: tests.into_iter().map(|(test, _)| test.clone()).collect(),
            time,
            schedules: 0,
        }
    };
    (parts.into_iter().filter(|tests| !tests.is_empty()).map(part).collect(), left_out)
}

/// Runs a test without a mutant.
///
/// # Errors
/// It fails, or is not there.
pub(crate) fn alone(binary: &Binary, test: &Explored) -> Result<Part, Failure> {
    let (tests, schedules) = (vec![test.test.clone()], test.schedules);
    let told = run(binary, &tests, 0, (schedules, 1), WITHOUT)?;
    match &told.passed[..] {
        [(_, time)] => Ok(Part { binary: binary.clone(), tests, time: *time, schedules }),
        _ => Err(format!("{} {} does not pass without a mutant", binary.name, test.test).into()),
    }
}

/// Runs tests up to the first that a mutant makes fail, and returns its name.
///
/// On a busy machine every test takes longer. So tests that do not end in time are run without the
/// mutant as well: where these take too long for that, both have twice the time.
pub(crate) fn catch(part: &Part, mutant: u32) -> Result<Option<String>, Failure> {
    let mut limit = SOME + MANY * part.time;
    let run = |mutant, limit| run(&part.binary, &part.tests, mutant, (part.schedules, 1), limit);
    let told = loop {
        let told = run(mutant, limit)?;
        if !told.is_late() || !run(0, limit / 2)?.is_late() {
            break told;
        }
        limit *= 2;
    };
    let failed = told.failed.into_iter().chain(told.end).next();
    Ok(failed.map(|test| format!("{} {test}", part.binary.name)))
}

/// Runs `tests` of a binary, or all, under so many schedules until so many fail. 0 is no mutant.
fn run(
    binary: &Binary,
    tests: &[String],
    mutant: u32,
    (schedules, failures): (u32, usize),
    limit: Duration,
) -> Result<Told, Failure> {
    let mut command = match OF_CORE.contains(&&*binary.package()) {
        true => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("ulimit -d {MEMORY_KIB} && exec \"$0\" \"$@\"")]).arg(&binary.path);
            shell
        }
        false => Command::new(&binary.path),
    };
    // One test at a time: the last one that was begun is the one that ends the program. Of two
    // threads the names are printed with the results, behind what an explored test tells.
    let threads = if schedules == 0 { 1 } else { 2 };
    command.arg(format!("--test-threads={threads}")).arg("--exact").args(tests).current_dir(&binary.folder);
    command.env("CARGO_MANIFEST_DIR", &binary.folder).env("VMALLOC_MUTANT", mutant.to_string());
    command.env("VMALLOC_SCHEDULES", schedules.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let told = watch(&lines(&mut child), failures, Instant::now() + limit);
    // What the tests have started ends as well. After a pass there may be nothing left.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    Ok(told)
}

/// Reads what a program prints in a thread of its own.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let told = sender.send(String::from_utf8_lossy(&line).into_owned());
                if told.is_err() {
                    break;
                }
                line.clear();
            }
        });
    }
    receiver
}

/// Waits until so many tests fail, the output ends, or time is up.
fn watch(lines: &Receiver<String>, failures: usize, deadline: Instant) -> Told {
    let (mut told, mut is_whole, mut last) = (Told::default(), false, Instant::now());
    while told.failed.len() < failures {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) if is_whole => break,
            Err(RecvTimeoutError::Disconnected) => return told.ended("(the program ended)"),
            Err(RecvTimeoutError::Timeout) => return told.ended(LATE),
        };
        is_whole |= line.starts_with("test result: ");
        let Some((test, result)) = test(&line) else { continue };
        let time = Instant::now().duration_since(std::mem::replace(&mut last, Instant::now()));
        match result.trim_end() {
            "ok" => told.passed.push((test.to_owned(), time)),
            "FAILED" => told.failed.push(test.to_owned()),
            other if other.starts_with("ignored") => {}
            _ => return told.ended(&format!("{test} (the program ended)")),
        }
    }
    told
}

impl Told {
    fn is_late(&self) -> bool {
        self.end.as_deref() == Some(LATE)
    }

    fn ended(self, end: &str) -> Self {
        Self { end: Some(end.to_owned()), ..self }
    }
}

/// Returns the name of the test and the result in a line like `test NAME ... ok`.
fn test(line: &str) -> Option<(&str, &str)> {
    let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((test.strip_suffix(" - should panic").unwrap_or(test), result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str], failures: usize) -> (usize, Vec<String>, Option<String>) {
        let (sender, receiver) = channel();
        lines.iter().for_each(|line| sender.send((*line).to_owned()).unwrap());
        drop(sender);
        let Told { passed, failed, end } = watch(&receiver, failures, Instant::now() + SOME);
        (passed.len(), failed, end)
    }

    #[test]
    fn tests_are_counted_up_to_the_first_that_fails_or_ends_the_program() {
        let lines = ["test a ... ok\n", "test b ... ignored, slow\n", "test c - should panic ... ok\n"];
        let [whole, failed] = ["test result: ok. 2 passed\n", "test d ... FAILED\n"];
        assert_eq!(said(&[&lines[..], &[whole]].concat(), 1), (2, vec![], None));
        assert_eq!(said(&[&[failed], &lines[..]].concat(), 1), (0, vec!["d".into()], None));
        assert_eq!(said(&[&[failed], &lines[..], &[whole]].concat(), 9), (2, vec!["d".into()], None));
        assert_eq!(said(&["test a ... "], 1), (0, vec![], Some("a (the program ended)".into())));
        assert_eq!(said(&lines, 1), (2, vec![], Some("(the program ended)".into())));
    }

    #[test]
    fn a_program_that_prints_nothing_is_late() {
        let (_sender, receiver) = channel();
        assert!(watch(&receiver, 1, Instant::now()).is_late());
    }
}
