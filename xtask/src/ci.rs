//! `cargo xtask ci`: what a change can break.

use crate::step::{Step, step};
use crate::steps;
use anyhow::Result;
use std::path::Path;

/// Names of what may be missing, and why.
const MAY_BE_MISSING: &str = ".ci/may-be-missing";
/// The longest step takes ten minutes on a quiet machine.
const LIMIT_S: u64 = 45 * 60;
const SHUTTLE: &str = "--cfg shuttle";
const LOOM: &str = "--cfg loom";
/// The crates with models of weak memory.
const MODELS: &str = "-p vmalloc-map -p vmalloc -p vmalloc-short -p vmalloc-linux -p vmalloc-stacks -p vmalloc-slots -p vmalloc-malloc";
/// A workspace of its own: what measures and compares.
const LAB: &str = "lab";
/// How clients take what others have published.
const PUBLISHED: &str = "clients/published";
/// The library that tests preload.
const LIBRARIES: &str = "-p vmalloc-preload";
/// Rows that are counted in seconds, and fall with the usual mistakes: fits, a space, look-ups, C.
const ROWS: &str = "FS-10k FS-holes-1 FS-align FS-align-worst W1 W5-10k W6 W7-start C-over-Rust";

pub(crate) fn run() -> Result<()> {
    steps::run("ci", &all(), LIMIT_S, Some(Path::new(MAY_BE_MISSING)))
}

pub(crate) fn all() -> Vec<Step> {
    let models = format!("cargo test {MODELS} --lib --target-dir target/loom");
    vec![
        step("format", "cargo fmt --all --check"),
        step("format of the lab", "cargo fmt --check").folder(LAB),
        step("format of the kernel", "cargo fmt --check").folder("testing/kernel"),
        step("format of the Python package", "cargo fmt --check").folder("python"),
        step("format of the clients' tool", "cargo fmt --check").folder(PUBLISHED),
        step("format of the Linux module", "cargo fmt --check").folder("clients/linux-module/rust"),
        step("build of the tests", "cargo test --workspace --no-run").builds(),
        // What tests preload: cargo builds no dynamic library for a test by itself.
        step("build of the libraries", &format!("cargo build {LIBRARIES}")).after("build of the tests").builds(),
        step("build of the lab", "cargo test --workspace --locked --no-run").folder(LAB).builds(),
        step("build of the schedules", "cargo test -p vmalloc-schedules --test all --target-dir target/schedules --no-run")
            .env("RUSTFLAGS", SHUTTLE)
            .builds(),
        step("schedules", "cargo test -p vmalloc-schedules --test all --target-dir target/schedules")
            .env("RUSTFLAGS", SHUTTLE)
            .after("build of the schedules"),
        step("build of the models", &format!("{models} --no-run")).env("RUSTFLAGS", LOOM).builds(),
        step("models of weak memory", &format!("{models} models"))
            .env("RUSTFLAGS", LOOM)
            .after("build of the models"),
        // The command of README.
        step("tests", "cargo test --workspace").after("build of the libraries"),
        step("errors without texts", "cargo test --no-default-features -p vmalloc-map -p vmalloc --lib")
            .env("VMALLOC_WITHOUT_TEXTS", "1")
            .after("tests"),
        // What depends on the kernel's age: what a slot keeps, what a page tells, how pages move. Not those parts of preload
        // that take as long as all of these: `cargo xtask nightly` runs them.
        step("Linux 6.1 in QEMU", "target/debug/xtask machines linux-6.1 slots preload/base preload/misuse preload/settings preload/stacks linux/relocate")
            .after("tests"),
        step("tests of the lab", "cargo test --workspace --locked").folder(LAB).after("build of the lab"),
        step("sources of the clients", "cargo test --locked --all-features --target-dir ../../target/clients").folder(PUBLISHED).after("build of the tests"),
        step("provenance", "target/debug/xtask provenance").after("sources of the clients"),
        step("lints", "cargo clippy --quiet --workspace --all-targets -- -D warnings").after("build of the tests"),
        step("lints of the lab", "cargo clippy --quiet --workspace --all-targets --locked -- -D warnings")
            .folder(LAB)
            .after("tests of the lab"),
        step("lints of the kernel", "cargo clippy --quiet --release --locked -- -D warnings").folder("testing/kernel"),
        step("lints of the clients' tool", "cargo clippy --quiet --all-targets --all-features --locked --target-dir ../../target/clients -- -D warnings")
            .folder(PUBLISHED)
            .after("provenance"),
        step("lints of explored code", "cargo clippy --quiet -p vmalloc -p vmalloc-schedules --lib --test all --target-dir target/schedules -- -D warnings")
            .env("RUSTFLAGS", SHUTTLE)
            .after("schedules"),
        step("lints of modelled code", &format!("cargo clippy --quiet {MODELS} --all-targets --target-dir target/loom -- -D warnings"))
            .env("RUSTFLAGS", LOOM)
            .after("models of weak memory"),
        step("documentation", "cargo doc --quiet --workspace --no-deps --all-features")
            .env("RUSTDOCFLAGS", "-D warnings")
            .after("lints"),
        step("documentation of the lab", "cargo doc --quiet --workspace --no-deps --locked")
            .folder(LAB)
            .env("RUSTDOCFLAGS", "-D warnings")
            .after("lints of the lab"),
        step("other targets", "target/debug/xtask targets").after("build of the tests"),
        // The quickest boot of each architecture, and the stack of each call.
        step("kernel in QEMU", "target/debug/xtask qemu --machine all --cpus 1 --loops 100").after("other targets"),
        step("least Rust", "target/debug/xtask msrv").after("build of the tests"),
        step("ratchet", "target/debug/xtask ratchet").after("build of the tests"),
        step("instructions", &format!("target/debug/xtask instructions --check {ROWS}")).after("build of the tests"),
        // One program counts both.
        step("policy", "target/debug/xtask policy").after("instructions"),
        step("virtual CPUs", "target/debug/xtask cores --check --quick").after("policy"),
    ]
}
