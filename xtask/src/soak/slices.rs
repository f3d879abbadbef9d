//! What a soak runs in turn.

use crate::toolchain;
use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Something that looks for faults at random.
pub(super) struct Slice {
    pub(super) name: String,
    /// Why it can't be run here.
    pub(super) missing: Option<String>,
    /// Builds what the command runs, which is not counted.
    pub(super) build: Command,
    /// The command, with a seed of its own, for about so long.
    pub(super) command: Box<dyn Fn(u64, Duration) -> Command>,
    /// How many executions it tells of.
    pub(super) executions: fn(&str) -> u64,
    /// How much longer than its time it may take to end by itself.
    pub(super) grace: Duration,
}

impl Slice {
    fn new(
        name: impl Into<String>,
        build: Command,
        command: impl Fn(u64, Duration) -> Command + 'static,
        executions: fn(&str) -> u64,
    ) -> Self {
        let (name, command) = (name.into(), Box::new(command));
        Self { name, missing: None, build, command, executions, grace: Duration::ZERO }
    }

    fn grace(self, seconds: u64) -> Self {
        Self { grace: Duration::from_secs(seconds), ..self }
    }
}

pub(super) fn slices() -> Vec<Slice> {
    let mut all = fuzz_targets();
    all.extend([stress(), schedules(), miri(), linux(), c_library()]);
    all.extend(["api", "slots", "stacks", "heap"].map(worlds));
    all
}

/// One for each target in `testing/fuzz/`.
fn fuzz_targets() -> Vec<Slice> {
    let has_fuzz = Command::new("cargo-fuzz").arg("--version").stdout(Stdio::null()).status().is_ok();
    let missing = (!has_fuzz).then(|| "cargo-fuzz is not installed".to_owned());
    let files = fs::read_dir("testing/fuzz/fuzz_targets").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names.into_iter().map(|name| fuzz(name, missing.clone())).collect()
}

fn fuzz(target: String, missing: Option<String>) -> Slice {
    let command = {
        let target = target.clone();
        move |seed: u64, length: Duration| {
            let (corpus, seeds) = (format!("corpus/{target}"), format!("seeds/{target}"));
            // Fails where it is there; the fuzzer tells if it can't write.
            let _ = fs::create_dir_all(format!("testing/fuzz/{corpus}"));
            let mut cargo = cargo(&["+nightly", "fuzz", "run", &target, &corpus, &seeds, "--"]);
            cargo.arg(format!("-seed={}", seed as u32)).arg(format!("-max_total_time={}", length.as_secs()));
            cargo.args(["-max_len=1200", "-print_final_stats=1", "-verbosity=0"]).current_dir("testing/fuzz");
            cargo
        }
    };
    let mut build = cargo(&["+nightly", "fuzz", "build", &target]);
    build.current_dir("testing/fuzz");
    let executions = |text: &str| sum_after(text, "stat::number_of_executed_units:");
    Slice { missing, ..Slice::new(format!("fuzz-{target}"), build, command, executions).grace(600) }
}

/// The driver's stress test, which allocates and frees on all CPUs.
fn stress() -> Slice {
    let command = |_, length: Duration| {
        let loops = length.as_secs().max(1) * 2000;
        let mut cargo = cargo(&["run", "--quiet", "--release", "-p", "vmalloc-cli", "--", "test", "stress"]);
        cargo.current_dir("lab").arg(format!("test_loop_count={loops}"));
        cargo
    };
    let mut build = cargo(&["build", "--quiet", "--release", "-p", "vmalloc-cli"]);
    build.current_dir("lab");
    Slice::new("stress", build, command, |text| sum_after(text, "loops: "))
}

const SHUTTLE: &str = "--cfg shuttle";

/// Explored schedules, of a seed of its own.
fn schedules() -> Slice {
    const TEST: [&str; 7] =
        ["test", "-p", "vmalloc-schedules", "--test", "all", "--target-dir", "target/schedules"];
    let command = |seed: u64, length: Duration| {
        let mut cargo = cargo(&TEST);
        cargo.args(["--", "scenarios::", "blocks::", "--nocapture"]);
        cargo.env("RUSTFLAGS", SHUTTLE).env("VMALLOC_SEED", seed.to_string());
        // Some hundred a second, in some forty scenarios.
        cargo.env("VMALLOC_SCHEDULES", (length.as_secs() * 10).max(100).to_string());
        cargo
    };
    let mut build = cargo(&TEST);
    build.arg("--no-run");
    build.env("RUSTFLAGS", SHUTTLE);
    Slice::new("schedules", build, command, |text| sum_after(text, "explored "))
}

/// Two threads on one space under Miri, a seed after the other.
fn miri() -> Slice {
    let command = |seed: u64, _| {
        let mut cargo = cargo(&["xtask", "miri", "--threads-only", "--seeds", "1000"]);
        cargo.arg("--from").arg((seed as u32 >> 1).to_string());
        cargo
    };
    let build = cargo(&["xtask", "miri", "--threads-only", "--build-only"]);
    // Each seed says so of each test file.
    let executions = |text: &str| text.matches("test result: ok").count() as u64;
    Slice { missing: toolchain::provide("miri").err(), ..Slice::new("miri", build, command, executions) }
}

/// The tests of the Linux platform, with seeds of their own where they are random.
fn linux() -> Slice {
    let command = |seed: u64, _| {
        let mut cargo = cargo(&["test", "--release", "-p", "vmalloc-linux", "--lib", "--tests"]);
        cargo.env("VMALLOC_SEED", seed.to_string());
        cargo
    };
    let build = cargo(&["test", "--release", "-p", "vmalloc-linux", "--lib", "--tests", "--no-run"]);
    Slice::new("linux", build, command, passed).grace(900)
}

/// Random worlds of one kind on Linux, of seeds of their own.
fn worlds(kind: &'static str) -> Slice {
    let command = move |seed: u64, length: Duration| {
        let mut cargo = cargo(&["run", "--quiet", "--release", "-p", "vmalloc-worlds", "--"]);
        cargo.arg(length.as_secs().max(1).to_string()).arg(kind).env("VMALLOC_SEED", seed.to_string());
        cargo
    };
    let build = cargo(&["build", "--quiet", "--release", "-p", "vmalloc-worlds"]);
    Slice::new(format!("worlds-{kind}"), build, command, |text| sum_after(text, "worlds, ")).grace(120)
}

/// Random programs in C over the whole header, with the compiler's sanitizers.
fn c_library() -> Slice {
    const TEST: [&str; 5] = ["test", "--release", "-p", "vmalloc-c", "--test"];
    let command = |seed: u64, length: Duration| {
        let mut cargo = cargo(&TEST);
        cargo.args(["all", "random_programs_hold_under_sanitizers", "--", "--nocapture"]);
        cargo.env("VMALLOC_SEED", seed.to_string()).env("VMALLOC_SECONDS", length.as_secs().to_string());
        cargo
    };
    let mut build = cargo(&TEST);
    build.args(["all", "--no-run"]);
    Slice::new("c-library", build, command, passed).grace(120)
}

/// A cargo with none of the settings of the one that runs this. It stays in the group of this process, so that an
/// interrupt from the terminal reaches it.
fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(words).env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
    cargo
}

/// Ends a command with all that it has started.
pub(super) fn end(child: &mut Child) -> io::Result<()> {
    let mut all = vec![child.id()];
    let mut seen = 0;
    while let Some(&parent) = all.get(seen) {
        all.extend(children(parent));
        seen += 1;
    }
    let words = all.iter().map(u32::to_string);
    // Some may have ended by themselves meanwhile.
    Command::new("kill").arg("--").args(words).stderr(Stdio::null()).status()?;
    child.wait().map(drop)
}

/// The processes that the threads of a process have started, and that are there.
fn children(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The tests that have passed.
fn passed(text: &str) -> u64 {
    text.matches("... ok").count() as u64
}

/// The sum of the numbers that follow `mark`.
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
