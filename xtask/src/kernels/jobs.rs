//! Which tests run on a machine, and how.

use super::build::Test;

/// The folder of programs and libraries on the machine.
pub(super) const FOLDER: &str = "/tests";
/// The folder there of the preload library and of the programs in C.
pub(super) const PROGRAMS: &str = "/programs";

/// Tests that can't hold on these machines: a part of their names, and why.
const SKIPPED: [(&str, &str); 8] = [
    ("a_program_that_is_linked_to_another_malloc_gets_none_of_it", "needs a compiler"),
    ("a_program_with_more_rights_than_its_caller_has_the_defaults", "needs a compiler"),
    ("a_pool_is_exhausted_at_its_most_slots", COUNTS_PAGES),
    ("a_slot_that_is_reset_reads_as_zero_and_stays_as_large", COUNTS_PAGES),
    ("much_waits_for_a_batch_of_64", COUNTS_PAGES),
    ("scattered_pages_are_found_where_the_extent_is_not_known", COUNTS_PAGES),
    (
        "slots_that_went_back_leave_no_mappings",
        "open: without guard marks, two mappings of each slot stay when it goes back",
    ),
    (
        "a_handler_of_a_signal_may_fork_whatever_it_has_interrupted",
        "open: 150 forks are not over in its own 60 s; the emulator may be too slow",
    ),
];
const COUNTS_PAGES: &str = "counts pages in memory by PAGEMAP_SCAN, which Linux has since 6.7";

/// Tests that take long here, and stay out of a run of all checks: measured on two busy cores, 18 s or more.
const LONG: [&str; 19] = [
    "linux/drain",
    "linux/environment",
    "linux/family",
    "linux/fork",
    "linux/forked_roots",
    "linux/frame_pages",
    "linux/frames",
    "linux/global",
    "linux/grace",
    "linux/misuse",
    "linux/programs",
    "linux/signals",
    "linux/traps",
    "malloc/global",
    "malloc/unit",
    "preload/entries",
    "preload/forks",
    "stacks/fork",
    "stacks/life",
];

/// Returns true if a test is among those that run without words.
pub(super) fn is_chosen(test: &str) -> bool {
    !LONG.contains(&test)
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
    seconds: u64,
    settings: &'static str,
    words: Vec<String>,
}

/// Returns the commands for some tests, which may take so many seconds each, and take words.
pub(super) fn jobs(tests: &[&Test], seconds: u64, words: &[String]) -> Vec<Job> {
    let job = |test: &&Test, suffix, without_proc, settings| Job {
        name: format!("{}{suffix}", test.name),
        file: on_machine(&test.name),
        without_proc,
        seconds,
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
        format!("{}\t{}\t{proc}\t{settings}\t{}{skips}{words}\n", self.name, self.seconds, self.file)
    }
}

/// Says which tests do not run, and why.
pub(super) fn tell_skipped() {
    SKIPPED.iter().for_each(|(test, reason)| println!("left out: {test}: {reason}"));
}
