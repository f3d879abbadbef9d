//! A step of a run: a command, what has to end before it, and what became of it.

use anyhow::{Context, Result};
use std::borrow::Cow;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The status of timeout(1) when it stopped its command.
const TIMED_OUT: i32 = 124;

/// The name of a step: others may wait for it.
pub(crate) type Name = Cow<'static, str>;

/// A command that must succeed.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: Name,
    words: Vec<String>,
    folder: &'static str,
    env: Vec<(&'static str, String)>,
    /// The steps that have to end before.
    pub(crate) after: Vec<&'static str>,
    /// Whether it only builds.
    pub(crate) builds: bool,
}

/// The files that all steps write, and their limit.
pub(crate) struct Place {
    pub(crate) logs: PathBuf,
    /// What was not run: see `vmalloc_harness::not_run`.
    pub(crate) not_run: PathBuf,
    /// The most seconds of a step: one that hangs fails.
    pub(crate) limit_s: u64,
}

/// What a command has said, and how it ended.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
    pub(crate) took: Duration,
}

/// The end of a step.
pub(crate) struct Done {
    pub(crate) name: Name,
    pub(crate) passed: bool,
    pub(crate) builds: bool,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
}

/// The counts of tests and schedules that steps print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) schedules: u64,
}

/// Returns a step that runs a command, whose words are parted by spaces, in the root of the
/// repository.
pub(crate) fn step(name: impl Into<Name>, command: &str) -> Step {
    Step {
        name: name.into(),
        words: words(command),
        folder: ".",
        env: Vec::new(),
        after: Vec::new(),
        builds: false,
    }
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

impl Step {
    pub(crate) fn after(mut self, step: &'static str) -> Self {
        self.after.push(step);
        self
    }

    pub(crate) fn folder(mut self, folder: &'static str) -> Self {
        self.folder = folder;
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl ToString) -> Self {
        self.env.push((name, value.to_string()));
        self
    }

    /// Says that it builds what a later step runs.
    pub(crate) fn builds(mut self) -> Self {
        self.builds = true;
        self
    }

    /// Returns a step that runs another command in the same place.
    pub(crate) fn instead(&self, command: &str) -> Self {
        Self { words: words(command), ..self.clone() }
    }

    /// Returns the end of a step that could not begin, since one before it has failed.
    pub(crate) fn not_begun(&self) -> Done {
        let (took, counts) = (Duration::ZERO, Counts::default());
        Done { name: self.name.clone(), passed: false, builds: self.builds, took, counts }
    }

    /// Runs it. What it prints goes to the output in one piece when it has ended, since others run beside it.
    pub(crate) fn run(&self, place: &Place) -> Result<Done> {
        let Ran { status, text, took } = self.execute(place)?;
        let (name, passed) = (self.name.clone(), status.success());
        println!("== {name}: {}\n{}", self.words.join(" "), text.trim_end());
        println!("== {name}: {} after {} s", if passed { "passed" } else { "FAILED" }, took.as_secs());
        Ok(Done { name, passed, builds: self.builds, took, counts: Counts::of(&text) })
    }

    /// Runs it, with what it prints in a file in `logs`.
    pub(crate) fn execute(&self, place: &Place) -> Result<Ran> {
        let path = place.logs.join(format!("{}.log", self.name.replace(' ', "-")));
        let log = File::create(&path).with_context(|| format!("can't write {}", path.display()))?;
        let start = Instant::now();
        // timeout(1) ends what a step has started as well; it is ended itself where this program is.
        let status = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "timeout", "--kill-after=10", &place.limit_s.to_string()])
            .args(&self.words)
            .current_dir(self.folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("VMALLOC_NOT_RUN", &place.not_run)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .status()
            .with_context(|| format!("{}: can't run {}", self.name, self.words[0]))?;
        let took = start.elapsed();
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok(Ran { status, text, took })
    }
}

impl Ran {
    /// Returns true if the command was not over in its time.
    pub(crate) fn is_late(&self) -> bool {
        self.status.code() == Some(TIMED_OUT)
    }
}

impl Counts {
    /// Adds up the lines of the test harness, and of explored schedules.
    pub(crate) fn of(text: &str) -> Self {
        let mut sum = Self::default();
        for line in text.lines() {
            if let Some(result) = line.trim_start().strip_prefix("test result:") {
                sum.passed += before(result, " passed");
                sum.failed += before(result, " failed");
                sum.skipped += before(result, " ignored");
            } else if let Some((_, explored)) = line.split_once("explored ") {
                sum.schedules += before(explored, " schedules");
            }
        }
        sum
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
            schedules: self.schedules + other.schedules,
        }
    }
}

/// Returns the number before a word, or 0.
fn before(text: &str, word: &str) -> u64 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up() {
        let text = "running 3 tests\n\
            test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
            scene: explored 120 schedules in 3 s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Counts::of(text), Counts { passed: 13, failed: 2, skipped: 3, schedules: 120 });
        assert_eq!(Counts::of("explored by foot"), Counts::default());
    }
}
