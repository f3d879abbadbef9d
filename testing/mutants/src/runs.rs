//! Running the tests of a binary, without a mutant and with one.

use crate::Failure;
use crate::build::Binary;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
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
    /// What they take without a mutant.
    pub(crate) time: Duration,
}

/// The tests that passed, each with its time; or the one that did not.
type Passed = Result<Vec<(String, Duration)>, String>;

/// Bounds of the times of the tests that run together. So the quick ones of all binaries run first.
const BOUNDS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5)];
/// The most that a binary may take without a mutant.
const WITHOUT: Duration = Duration::from_secs(900);
/// The most memory of a program: mutants may take all that there is.
const MEMORY: u64 = 4 << 30;
/// The time that tests may take with a mutant: some, and many times what they take without.
const SOME: Duration = Duration::from_secs(20);
const MANY: u32 = 5;

/// Lets this program, and those that it starts, have so much memory and no more.
pub(crate) fn limit_memory() -> Result<(), Failure> {
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    Ok(setrlimit(Resource::Data, limit)?)
}

/// Runs a binary without a mutant. Returns its parts, without tests that take longer than `most`, and
/// those tests.
pub(crate) fn measure(binary: &Binary, most: Option<Duration>) -> Result<(Vec<Part>, Vec<String>), Failure> {
    let passed = run(binary, &[], 0, WITHOUT)?;
    let passed = passed.map_err(|test| format!("{} fails without a mutant: {test}", binary.name))?;
    let mut parts: [Vec<(String, Duration)>; BOUNDS.len() + 1] = Default::default();
    let mut long = Vec::new();
    for (test, time) in passed {
        match most.is_some_and(|most| time > most) {
            true => long.push(format!("{} {test}", binary.name)),
            false => parts[BOUNDS.partition_point(|bound| *bound < time)].push((test, time)),
        }
    }
    let part = |tests: Vec<(String, Duration)>| {
        let time = tests.iter().map(|(_, time)| *time).sum();
        Part { binary: binary.clone(), tests: tests.into_iter().map(|(test, _)| test).collect(), time }
    };
    Ok((parts.into_iter().filter(|tests| !tests.is_empty()).map(part).collect(), long))
}

/// Runs tests up to the first that a mutant makes fail, and returns its name.
pub(crate) fn catch(part: &Part, mutant: u32) -> Result<Option<String>, Failure> {
    let failed = run(&part.binary, &part.tests, mutant, SOME + MANY * part.time)?.err();
    Ok(failed.map(|test| format!("{} {test}", part.binary.name)))
}

/// Runs `tests` of a binary, or all, up to the first that fails. 0 is no mutant.
fn run(binary: &Binary, tests: &[String], mutant: u32, limit: Duration) -> Result<Passed, Failure> {
    let mut command = Command::new(&binary.path);
    // One test at a time: the last one that was begun is the one that ends the program.
    command.arg("--test-threads=1").arg("--exact").args(tests).current_dir(&binary.folder);
    command.env("CARGO_MANIFEST_DIR", &binary.folder).env("VMALLOC_MUTANT", mutant.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let passed = watch(lines(&mut child), Instant::now() + limit);
    // What the tests have started ends as well. After a pass there may be nothing left.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    Ok(passed)
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

/// Waits until a test fails, the output ends, or time is up.
fn watch(lines: Receiver<String>, deadline: Instant) -> Passed {
    let (mut passed, mut is_whole, mut last) = (Vec::new(), false, Instant::now());
    loop {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err("(no end in time)".into()),
            Err(RecvTimeoutError::Disconnected) if is_whole => return Ok(passed),
            Err(RecvTimeoutError::Disconnected) => return Err("(the program ended)".into()),
        };
        is_whole |= line.starts_with("test result: ok");
        let Some((test, result)) = test(&line) else { continue };
        let time = Instant::now().duration_since(std::mem::replace(&mut last, Instant::now()));
        match result.trim_end().rsplit(' ').next() {
            _ if result.starts_with("ignored") => {}
            Some("ok") => passed.push((test.to_owned(), time)),
            Some("FAILED") => return Err(test.to_owned()),
            _ => return Err(format!("{test} (the program ended)")),
        }
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

    fn said(lines: &[&str]) -> Result<usize, String> {
        let (sender, receiver) = channel();
        lines.iter().for_each(|line| sender.send((*line).to_owned()).unwrap());
        drop(sender);
        watch(receiver, Instant::now() + SOME).map(|passed| passed.len())
    }

    #[test]
    fn the_first_test_that_fails_is_told_or_in_which_the_program_ended() {
        let all = "test result: ok. 2 passed\n";
        let lines = ["test a ... ok\n", "test b ... ignored, slow\n", "test c - should panic ... ok\n", all];
        assert_eq!(said(&lines), Ok(2));
        assert_eq!(said(&["test a ... ok\n", "test b ... FAILED\n"]), Err("b".into()));
        assert_eq!(said(&["test a ... "]), Err("a (the program ended)".into()));
        assert_eq!(said(&["test a ... ok\n"]), Err("(the program ended)".into()));
    }
}
