//! What a soak runs in turn.

use crate::process::succeeds;
use crate::step::{Step, step};
use crate::toolchain;
use std::fs;
use std::process::Command;

/// Something that looks for faults at random.
pub(super) struct Slice {
    pub(super) step: Step,
    /// Builds what the step runs, which is not counted.
    pub(super) build: Step,
    /// Why it can't be run here.
    pub(super) missing: Option<String>,
    /// How many executions it tells of.
    pub(super) executions: fn(&str) -> u64,
    /// How much longer than its time it may take to end by itself.
    pub(super) grace_s: u64,
}

impl Slice {
    fn new(step: Step, build: &str, executions: fn(&str) -> u64) -> Self {
        let build = step.instead(build);
        Self { step, build, missing: None, executions, grace_s: 0 }
    }

    fn grace(self, grace_s: u64) -> Self {
        Self { grace_s, ..self }
    }
}

const SCHEDULES: &str = "cargo test -p vmalloc-schedules --test all --target-dir target/schedules";
const LINUX: &str = "cargo test --release -p vmalloc-linux --lib --tests";
const C_LIBRARY: &str = "cargo test --release -p vmalloc-c --test all";

/// Returns all slices, with a seed of their own, for about so many seconds each.
pub(super) fn all(seed: u64, seconds: u64) -> Vec<Slice> {
    let run = |name: &str, words: &str| step(name.to_owned(), words).env("VMALLOC_SEED", seed);
    let mut all = fuzz_targets(seed, seconds);
    // The driver's stress test, which allocates and frees on all CPUs.
    let driver = "cargo run --quiet --release -p vmalloc-cli -- test stress";
    let stress = run("stress", &format!("{driver} test_loop_count={}", seconds.max(1) * 2000)).folder("lab");
    all.push(Slice::new(stress, "cargo build --quiet --release -p vmalloc-cli", |text| {
        sum_after(text, "loops: ")
    }));
    let schedules = run("schedules", &format!("{SCHEDULES} -- scenarios:: blocks:: --nocapture"))
        .env("RUSTFLAGS", "--cfg shuttle")
        // Some hundred a second, in some forty scenarios.
        .env("VMALLOC_SCHEDULES", (seconds * 10).max(100));
    all.push(Slice::new(schedules, &format!("{SCHEDULES} --no-run"), |text| sum_after(text, "explored ")));
    // Two threads on one space under Miri, a seed after the other.
    let miri = "cargo xtask miri --threads-only";
    let threads = run("miri", &format!("{miri} --seeds 1000 --from {}", seed as u32 >> 1));
    let slice = Slice::new(threads, &format!("{miri} --build-only"), |text| {
        // Each seed says so of each test file.
        text.matches("test result: ok").count() as u64
    });
    all.push(Slice { missing: toolchain::provide("miri").err(), ..slice });
    // The tests of the Linux platform, with seeds of their own where they are random.
    all.push(Slice::new(run("linux", LINUX), &format!("{LINUX} --no-run"), passed).grace(900));
    // Random programs in C over the whole header, with the compiler's sanitizers.
    let programs = format!("{C_LIBRARY} random_programs_hold_under_sanitizers -- --nocapture");
    let programs = run("c-library", &programs).env("VMALLOC_SECONDS", seconds);
    all.push(Slice::new(programs, &format!("{C_LIBRARY} --no-run"), passed).grace(120));
    for kind in ["api", "slots", "stacks", "heap"] {
        let words = format!("cargo run --quiet --release -p vmalloc-worlds -- {} {kind}", seconds.max(1));
        let worlds = run(&format!("worlds-{kind}"), &words);
        let build = "cargo build --quiet --release -p vmalloc-worlds";
        all.push(Slice::new(worlds, build, |text| sum_after(text, "worlds, ")).grace(120));
    }
    all
}

/// Returns one for each target in `testing/fuzz/`.
fn fuzz_targets(seed: u64, seconds: u64) -> Vec<Slice> {
    let has_fuzz = succeeds(Command::new("cargo-fuzz").arg("--version"));
    let missing = (!has_fuzz).then(|| "cargo-fuzz is not installed".to_owned());
    let files = fs::read_dir("testing/fuzz/fuzz_targets").into_iter().flatten().flatten();
    let mut targets: Vec<String> =
        files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    targets.sort();
    let fuzz = |target: String| {
        // Fails where it is there; the fuzzer tells if it can't write.
        let _ = fs::create_dir_all(format!("testing/fuzz/corpus/{target}"));
        let run = format!(
            "cargo +nightly fuzz run --fuzz-dir . {target} corpus/{target} seeds/{target} -- -seed={} -max_total_time={seconds} \
             -max_len=1200 -print_final_stats=1 -verbosity=0",
            seed as u32
        );
        let run = step(format!("fuzz-{target}"), &run).folder("testing/fuzz");
        let build = format!("cargo +nightly fuzz build --fuzz-dir . {target}");
        let slice = Slice::new(run, &build, |text| sum_after(text, "stat::number_of_executed_units:"));
        Slice { missing: missing.clone(), ..slice.grace(600) }
    };
    targets.into_iter().map(fuzz).collect()
}

/// Returns the number of tests that have passed.
fn passed(text: &str) -> u64 {
    text.matches("... ok").count() as u64
}

/// Returns the sum of the numbers that follow `mark`.
fn sum_after(text: &str, mark: &str) -> u64 {
    let number = |rest: &str| {
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    text.match_indices(mark).map(|(at, mark)| number(&text[at + mark.len()..])).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_a_mark_are_added() {
        let text = "explored 200 schedules of a\nexplored 20 schedules of b\nexplored none";
        assert_eq!(sum_after(text, "explored "), 220);
        assert_eq!(sum_after("stat::number_of_executed_units: 77", "units:"), 77);
    }
}
