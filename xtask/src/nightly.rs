//! `cargo xtask nightly`: what takes longer than a change can wait.

use crate::step::{Step, step};
use crate::steps;
use anyhow::{Result, bail};
use std::time::{SystemTime, UNIX_EPOCH};

/// Run what takes longer than a change can wait: hours
///
/// Random tests have seeds of their own, which are printed, and do more. Output and a report go to target/nightly. Fails as
/// well if anything was not run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the steps with one of these in their names.
    names: Vec<String>,
}

/// The clients take hours to build.
const LIMIT_S: u64 = 6 * 3600;

pub(crate) fn run(Args { names }: &Args) -> Result<()> {
    // Of the clock, so that no two nights have the same.
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    let mut chosen = all(seed);
    chosen.retain(|step| names.is_empty() || names.iter().any(|name| step.name.contains(name)));
    if chosen.is_empty() {
        bail!("no step has {names:?} in its name");
    }
    println!("VMALLOC_SEED={seed}");
    steps::run("nightly", &chosen, LIMIT_S, None)
}

/// The packages of Debian that steps call. The name of one has the version of Python in it.
const PACKAGES: &str = "abigail-tools apt-utils binutils clang cmake dpkg-dev g++ gcc gcc-multilib gdb libelf1 ^libpython3[.][0-9]+-testsuite$ make memcached \
    nodejs pkg-config postgresql python3 python3-venv qemu-system-arm qemu-system-misc qemu-system-x86 redis-server sqlite3 tcl valgrind xz-utils";

/// It waits where another installation is under way.
const APT: &str = "apt-get -o DPkg::Lock::Timeout=600";

/// The crates that run on each kind of Linux.
const ON_LINUX: &str =
    "-p vmalloc -p vmalloc-short -p vmalloc-linux -p vmalloc-stacks -p vmalloc-slots -p vmalloc-malloc";

pub(crate) fn all(seed: u64) -> Vec<Step> {
    let random = |step: Step, effort: usize| step.env("VMALLOC_SEED", seed).env("VMALLOC_EFFORT", effort);
    let xtask = |name, words: &str| step(name, &format!("cargo xtask {words}"));
    let deny = |name, words: &str| step(name, &format!("cargo deny {words}")).after("tools");
    let fuzzing = "soak --hours 0.3 --slice 60";
    vec![
        step("package lists", &format!("{APT} update -qq")),
        step("packages", &format!("{APT} install -qq -y --no-install-recommends {PACKAGES}"))
            .after("package lists"),
        // It adds those that steps below run.
        xtask("targets", "targets"),
        step("tools", "cargo install --quiet --locked cargo-deny cargo-fuzz"),
        random(step("tests", "cargo test --workspace"), 4).after("packages"),
        random(step("tests of the lab", "cargo test --workspace").folder("lab"), 4).after("packages"),
        random(
            step("schedules", "cargo test -p vmalloc-schedules --test all --target-dir target/schedules"),
            10,
        )
        .env("RUSTFLAGS", "--cfg shuttle"),
        xtask("mutants", "mutants"),
        xtask("Miri", "miri --seeds 8"),
        xtask("sanitizer of addresses", "sanitize address"),
        xtask("sanitizer of threads", "sanitize thread"),
        xtask("fuzzing, stress and random worlds", fuzzing).after("tools"),
        xtask("kernel in QEMU", "qemu --machine all").after("packages").after("targets"),
        xtask("Linux 6.1 in QEMU", "machines linux-6.1 --all").after("packages"),
        xtask("huge pages in QEMU", "machines huge-pages --all").after("Linux 6.1 in QEMU"),
        xtask("two memory nodes in QEMU", "machines two-nodes").after("Linux 6.1 in QEMU"),
        xtask("pages of 16 KiB in QEMU", "machines aarch64-16k --all").after("packages").after("targets"),
        xtask("inside Linux 6.12 in QEMU", "inside-linux 6.12 --check").after("packages").after("targets"),
        step("lints of the Linux module", "cargo clippy --quiet --release --locked -- -D warnings")
            .folder("clients/linux-module/rust")
            .after("targets"),
        step(
            "tests with musl",
            &format!("cargo test --no-fail-fast --target x86_64-unknown-linux-musl {ON_LINUX}"),
        )
        .after("packages")
        .after("targets"),
        step(
            "a static program",
            "cargo run --target x86_64-unknown-linux-musl -p vmalloc-malloc --example static_program",
        )
        .after("tests with musl"),
        // Documents and examples have areas of terabytes.
        step(
            "tests with 32 bits",
            &format!("cargo test --no-fail-fast --lib --tests --target i686-unknown-linux-gnu {ON_LINUX}"),
        )
        .after("packages")
        .after("targets"),
        xtask("instructions", "instructions --check").after("packages"),
        xtask("virtual CPUs", "cores --check"),
        xtask("virtual CPUs beside real ones", "cores --real -- --line 20").after("virtual CPUs"),
        xtask("times that README tells", "figures").after("packages"),
        step(
            "memory of steady loads and arrays",
            "cargo run --quiet --release -p vmalloc-bench --features buffers --bin memory -- steady arrays",
        )
        .folder("lab"),
        xtask("instructions in a kernel", "instructions --kernel --check"),
        xtask("programs under the malloc library", "preload").after("packages"),
        xtask("Python package", "python").after("packages"),
        xtask("packages that would be published", "package"),
        step("C library", "make -C crates/vmalloc-c install PREFIX=../../target/c-library").after("packages"),
        // The path is that of a program that make starts in its folder.
        step("C examples", "make -C crates/vmalloc-c/examples BUILD=../../../target/c-examples check")
            .env("PKG_CONFIG_PATH", "../../../target/c-library/lib/pkgconfig")
            .after("C library"),
        xtask("clients", "clients").after("packages"),
        deny("dependencies", "check bans licenses sources"),
        deny("dependencies of the lab", "--config ../deny.toml check bans licenses sources").folder("lab"),
        // Of a database that github.com has.
        deny("advisories", "check advisories"),
        deny("advisories of the lab", "--config ../deny.toml check advisories").folder("lab"),
        step("benches with all their peers", "cargo test -p vmalloc-bench --features peers")
            .env("RUSTFLAGS", "-D warnings")
            .folder("lab"),
        step("driver", "cargo run --quiet --release -p vmalloc-cli -- test performance test_loop_count=2000")
            .folder("lab"),
        step("published results", "cargo run --quiet --release -p vmalloc-cli -- reproduce")
            .folder("lab")
            .after("driver"),
    ]
}
