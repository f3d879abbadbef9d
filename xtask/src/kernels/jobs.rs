//! Which tests run on a machine, and how.

use super::build::Test;

/// The folder of programs and libraries on the machine.
pub(super) const FOLDER: &str = "/tests";
/// The folder there of the preload library and of the programs in C.
pub(super) const PROGRAMS: &str = "/programs";
/// Seconds of one test program. The emulator is 10 to 30 times slower than this machine.
const SECONDS: u64 = 300;

/// Tests that can't hold on these machines: a part of their names, and why.
const SKIPPED: [(&str, &str); 2] = [
    ("a_program_that_is_linked_to_another_malloc_gets_none_of_it", "needs a compiler"),
    ("a_program_with_more_rights_than_its_caller_has_the_defaults", "needs a compiler"),
];

/// Tests that take too long for a run of all checks: beginnings of their names.
const LONG: [&str; 0] = [];

/// Returns true if a test is among those that run without words.
pub(super) fn is_chosen(test: &str) -> bool {
    !LONG.iter().any(|name| test.starts_with(name))
}

/// The file that runs once more while /proc is not mounted.
const WITHOUT_PROC: &str = "linux/notify";
/// The file that looks for a race, for longer than elsewhere: an older kernel is where it is lost.
const RACE: &str = "preload/moves";

/// A command of the machine.
pub(super) struct Job {
    pub(super) name: String,
    file: String,
    without_proc: bool,
    settings: &'static str,
    words: Vec<String>,
}

/// Returns the commands for some tests, which take words.
pub(super) fn jobs(tests: &[&Test], words: &[String]) -> Vec<Job> {
    let job = |test: &&Test, suffix, without_proc, settings| Job {
        name: format!("{}{suffix}", test.name),
        file: on_machine(&test.name),
        without_proc,
        settings,
        words: words.to_vec(),
    };
    let mut jobs = Vec::new();
    for test in tests {
        match test.name.as_str() {
            RACE => jobs.push(job(test, "", false, "VMALLOC_TEST_SECONDS=25")),
            _ => jobs.push(job(test, "", false, "")),
        }
        if test.name == WITHOUT_PROC {
            jobs.push(job(test, "-without-proc", true, ""));
        }
    }
    jobs
}

/// Returns the path of a test program on the machine.
pub(super) fn on_machine(test: &str) -> String {
    format!("{FOLDER}/{test}")
}

impl Job {
    /// Returns the line of the command, as the first process reads it.
    pub(super) fn line(&self) -> String {
        let proc = if self.without_proc { "no-proc" } else { "proc" };
        let settings = format!("VMALLOC_TEST_PROGRAMS={PROGRAMS} {}", self.settings);
        let skips = SKIPPED.iter().map(|(test, _)| format!("\t--skip\t{test}")).collect::<String>();
        let words = self.words.iter().map(|word| format!("\t{word}")).collect::<String>();
        format!("{}\t{SECONDS}\t{proc}\t{settings}\t{}{skips}{words}\n", self.name, self.file)
    }
}

/// Says which tests do not run, and why.
pub(super) fn tell_skipped() {
    SKIPPED.iter().for_each(|(test, reason)| println!("NOT RUN: {test}: {reason}"));
}
