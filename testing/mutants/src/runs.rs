//! Running test binaries, without a mutant and with one.

use crate::Failure;
use crate::build::Binary;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What a test binary says.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    /// A test fails, or the program ends, or it does not end: in the test of this name.
    Caught(String),
}

/// The most memory of a program: mutants may take all that there is.
const MEMORY: u64 = 4 << 30;
/// The time that a binary may take with a mutant: some, and many times what it takes without.
const SOME: Duration = Duration::from_secs(20);
const MANY: u32 = 5;

/// Lets this program, and those that it starts, have so much memory and no more.
pub(crate) fn limit_memory() -> Result<(), Failure> {
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    Ok(setrlimit(Resource::Data, limit)?)
}

/// Returns how long a binary may take that takes `time` without a mutant.
pub(crate) fn limit(time: Duration) -> Duration {
    SOME + MANY * time
}

/// Runs a binary up to the first test that fails. 0 is no mutant.
pub(crate) fn run(binary: &Binary, mutant: u32, limit: Duration) -> Result<Outcome, Failure> {
    let mut command = Command::new(&binary.path);
    // One test at a time: the last one that was begun is the one that ends the program.
    command.arg("--test-threads=1").current_dir(&binary.folder);
    command.env("CARGO_MANIFEST_DIR", &binary.folder).env("VMALLOC_MUTANT", mutant.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let outcome = watch(lines(&mut child), Instant::now() + limit);
    // What the tests have started ends as well. After a pass there may be nothing left.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let status = child.wait()?;
    Ok(match outcome {
        Ok(()) if status.success() => Outcome::Passed,
        Ok(()) => Outcome::Caught(format!("{status}")),
        Err(test) => Outcome::Caught(test),
    })
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

/// Waits until a test fails, the output ends, or time is up. Returns the test that failed, or that
/// was not over.
fn watch(lines: Receiver<String>, deadline: Instant) -> Result<(), String> {
    let mut is_whole = false;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if let Some((test, result)) = test(&line)
                    && !result.ends_with("ok\n")
                    && !result.contains("ignored")
                {
                    let how = if result.ends_with("FAILED\n") { "" } else { " (the program ended)" };
                    return Err(format!("{test}{how}"));
                }
                is_whole |= line.starts_with("test result: ok");
            }
            Err(RecvTimeoutError::Timeout) => return Err("no end in time".into()),
            Err(RecvTimeoutError::Disconnected) if is_whole => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err("the program ended".into()),
        }
    }
}

/// Returns the name of the test and the result in a line like `test NAME ... ok`.
fn test(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Result<(), String> {
        let (sender, receiver) = channel();
        lines.iter().for_each(|line| sender.send((*line).to_owned()).unwrap());
        drop(sender);
        watch(receiver, Instant::now() + SOME)
    }

    #[test]
    fn the_first_test_that_fails_is_told_or_in_which_the_program_ended() {
        let all = "test result: ok. 2 passed\n";
        assert_eq!(said(&["test a ... ok\n", "test b ... ignored, slow\n", all]), Ok(()));
        assert_eq!(said(&["test a ... ok\n", "test b ... FAILED\n"]), Err("b".into()));
        assert_eq!(said(&["test a ... "]), Err("a (the program ended)".into()));
        assert_eq!(said(&["test a ... ok\n"]), Err("the program ended".into()));
    }
}
