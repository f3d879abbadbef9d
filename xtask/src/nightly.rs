//! `cargo xtask nightly`: what takes longer than a change can wait.

use crate::run;
use crate::step::{Step, step};
use anyhow::{Result, bail};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many times as much the random tests do.
const EFFORT: usize = 4;

/// Runs all steps, or those with one of `names` in theirs. Nothing may be missing.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    // Of the clock, so that no two nights have the same.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let mut steps = steps(seed);
    steps.retain(|step| names.is_empty() || names.iter().any(|name| step.name.contains(name)));
    if steps.is_empty() {
        bail!("no step has {names:?} in its name");
    }
    println!("VMALLOC_SEED={seed}");
    run::run("nightly", &steps, None)
}

fn steps(seed: u64) -> Vec<Step> {
    let random = |step: Step| step.env("VMALLOC_SEED", seed).env("VMALLOC_EFFORT", EFFORT);
    let xtask = |name, words: &str| step(name, &format!("cargo xtask {words}"));
    vec![
        random(step("tests", "cargo test --workspace")),
        random(step("schedules", "cargo test -p vmalloc-schedules --target-dir target/schedules"))
            .env("RUSTFLAGS", "--cfg shuttle"),
        step("peers", "cargo check --quiet -p vmalloc-bench --features peers"),
        xtask("mutants", "mutants"),
        xtask("Miri", "miri --seeds 8"),
        xtask("sanitizer of addresses", "sanitize address"),
        xtask("sanitizer of threads", "sanitize thread"),
        xtask("random worlds, fuzzing, stress", "soak --hours 0.3 --slice 60"),
        xtask("kernel in QEMU", "qemu"),
        xtask("Linux 6.1 in QEMU", "kernels --all"),
        xtask("programs under the malloc library", "preload"),
        xtask("Python package", "python"),
        xtask("C library, installed", "c-library --prefix target/c-library"),
        step("C examples", "make -C crates/vmalloc-c/examples BUILD=../../../target/c-examples check")
            .env("PKG_CONFIG_PATH", "../../../target/c-library/lib/pkgconfig")
            .after("C library, installed"),
        xtask("clients", "clients"),
        step("dependencies", "cargo deny check"),
        xtask("instructions", "instructions --check"),
        xtask("instructions in a kernel", "instructions --kernel"),
        step("published results", "cargo run --quiet --release -p vmalloc-cli -- reproduce"),
        step("driver", "cargo run --quiet --release -p vmalloc-cli -- test performance test_loop_count=2000"),
    ]
}
