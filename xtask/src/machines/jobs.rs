//! Which tests run on a machine, and how.

use super::build::Test;
use super::parts::Part;

/// The folder of programs and libraries on the machine.
pub(super) const FOLDER: &str = "/tests";
/// The folder there of the preload library and of the programs in C.
pub(super) const PROGRAMS: &str = "/programs";

/// A test that can't hold on some machines.
struct LeftOut {
    /// A part of the test's name.
    test: &'static str,
    /// The names of the machines.
    machines: &'static [&'static str],
    reason: &'static str,
}

/// Machines with Linux 6.1.
const OLD: &[&str] = &["linux-6.1", "huge-pages", "two-nodes"];

const LEFT_OUT: [LeftOut; 5] = [
    LeftOut {
        test: "a_program_that_is_linked_to_another_malloc_gets_none_of_it",
        machines: OLD,
        reason: "needs a compiler",
    },
    LeftOut {
        test: "a_program_with_more_rights_than_its_caller_has_the_defaults",
        machines: OLD,
        reason: "needs a compiler",
    },
    LeftOut {
        test: "scattered_pages_are_found_where_the_extent_is_not_known",
        machines: OLD,
        reason: "the kernel tells of written pages since 6.7: before, all count as kept",
    },
    LeftOut {
        test: "slots_that_went_back_leave_no_mappings",
        machines: OLD,
        reason: "open: without guard marks, two mappings of each slot stay when it goes back",
    },
    LeftOut {
        test: "a_handler_of_a_signal_may_fork_whatever_it_has_interrupted",
        machines: OLD,
        reason: "open: 150 forks are not over in its own 60 s; the emulator may be too slow",
    },
];

/// Returns what is left out on a machine.
fn left_out(machine: &str) -> impl Iterator<Item = &'static LeftOut> {
    LEFT_OUT.iter().filter(move |it| it.machines.contains(&machine))
}

/// Tests that take long here, and stay out of a run of all checks: measured on two busy cores, 18 s or more.
const LONG: &str = "linux/drain linux/elsewhere linux/environment linux/family linux/fork linux/forked_roots \
    linux/frames linux/global linux/programs linux/signals linux/traps malloc/global malloc/unit \
    preload/entries preload/forks stacks/fork stacks/life";

/// Returns true if a test is among those that run without words.
pub(super) fn is_chosen(test: &str) -> bool {
    LONG.split_whitespace().all(|long| long != test)
}

/// The part that runs once more while /proc is not mounted.
const WITHOUT_PROC: &str = "linux/notify";
/// Has its test run where it is: without /proc no program knows its own path, to start itself again.
const IN_PLACE: &str = "VMALLOC_OWN_PROCESS=notify";
/// The part that looks for a race, for longer than elsewhere: an older kernel is where it is lost.
const RACE: &str = "preload/moves";

/// A command of the machine.
pub(super) struct Job {
    pub(super) name: String,
    /// The name of its program.
    pub(super) program: String,
    without_proc: bool,
    seconds: u64,
    settings: &'static str,
    words: Vec<String>,
}

/// Returns the commands by which programs list their tests.
pub(super) fn lists(programs: &[Test]) -> Vec<Job> {
    let job = |program: &Test| Job {
        name: program.name.clone(),
        program: program.name.clone(),
        without_proc: false,
        seconds: 60,
        settings: "",
        words: vec!["--list".to_owned()],
    };
    programs.iter().map(job).collect()
}

/// Returns the commands of a machine for some parts, which may take so many seconds each, and words
/// that tests have in their names.
pub(super) fn jobs(machine: &str, parts: &[&Part], seconds: u64, words: &[String]) -> Vec<Job> {
    let choice = |part: &Part| choice(machine, part, words);
    let job = |part: &Part, suffix, without_proc, settings| Job {
        name: format!("{}{suffix}", part.name),
        program: part.program.clone(),
        without_proc,
        seconds,
        settings,
        words: choice(part),
    };
    let mut jobs = Vec::new();
    for part in parts.iter().filter(|part| !choice(part).is_empty()) {
        match part.name.as_str() {
            RACE => jobs.push(job(part, "", false, "VMALLOC_SECONDS=25")),
            _ => jobs.push(job(part, "", false, "")),
        }
        if part.name == WITHOUT_PROC {
            jobs.push(job(part, "-without-proc", true, IN_PLACE));
        }
    }
    jobs
}

/// Returns the words by which a program runs the tests of a part with one of these words in their
/// names; none if there is no such test.
fn choice(machine: &str, part: &Part, words: &[String]) -> Vec<String> {
    if part.tests.is_empty() {
        let skips = left_out(machine).flat_map(|it| ["--skip", it.test]).map(str::to_owned);
        return skips.chain(words.iter().cloned()).collect();
    }
    let has_word = |test: &&String| words.is_empty() || words.iter().any(|word| test.contains(word.as_str()));
    let is_skipped = |test: &&String| left_out(machine).any(|it| test.contains(it.test));
    let tests: Vec<_> =
        part.tests.iter().filter(has_word).filter(|test| !is_skipped(test)).cloned().collect();
    if tests.is_empty() { tests } else { ["--exact".to_owned()].into_iter().chain(tests).collect() }
}

/// Returns the path of a test program on the machine.
pub(super) fn on_machine(test: &str) -> String {
    format!("{FOLDER}/{test}")
}

impl Job {
    /// Returns the line of the command, as `init.sh` reads it.
    pub(super) fn line(&self) -> String {
        let proc = if self.without_proc { "no-proc" } else { "proc" };
        let settings = format!("VMALLOC_TEST_PROGRAMS={PROGRAMS} {}", self.settings);
        let words = self.words.iter().map(|word| format!(" '{word}'")).collect::<String>();
        format!(
            "job {} {} {proc} '{settings}' {}{words}\n",
            self.name,
            self.seconds,
            on_machine(&self.program)
        )
    }
}

/// Says which tests do not run, and why.
pub(super) fn tell_skipped(machine: &str) {
    left_out(machine).for_each(|it| println!("left out: {}: {}", it.test, it.reason));
}
