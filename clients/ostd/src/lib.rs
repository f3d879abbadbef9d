//! Kernels of Asterinas' ostd, as published and with `vmalloc`: made from the registry, built, and booted in QEMU.

mod edits;
mod make;
mod report;

pub use report::{Report, Row};

use std::path::PathBuf;
use std::process::{Command, Stdio};
use thiserror::Error;

/// The toolchain that ostd 0.19.0 is written for, as its `cargo osdk new` says.
const TOOLCHAIN: &str = "nightly-2026-07-21";
/// The machine that is emulated.
const QEMU: &str = "qemu-system-x86_64";
/// Seconds that one boot may take: it takes some ten where nothing else runs.
const LIMIT: &str = "300";

/// An ostd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ostd {
    /// The published one, and what looks at it.
    Published,
    /// The one whose kernel virtual areas are served by `vmalloc`.
    OnVmalloc,
}

/// A kernel, by its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Runs all tests, on two CPUs.
    Tests,
    /// Runs the bench, on one CPU whose instructions are counted.
    Measure,
}

/// The reason why a kernel did not run.
#[derive(Debug, Error)]
pub enum Error {
    /// Something is not to be had on this machine.
    #[error("{0}")]
    Missing(String),
    /// A file of a copy can't be made.
    #[error("can't make {path:?}: {cause}")]
    Make {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: std::io::Error,
    },
    /// A program can't be run, or failed.
    #[error("{program} failed: {how}")]
    Program {
        /// The program.
        program: &'static str,
        /// Its status, or the reason.
        how: String,
    },
}

impl From<published::Error> for Error {
    fn from(error: published::Error) -> Self {
        match error {
            published::Error::Missing { .. } => Self::Missing(error.to_string()),
            published::Error::Copy { path, cause } => Self::Make { path, cause },
        }
    }
}

/// Sees to it that toolchain and emulator are there, and installs the toolchain by rustup where it can.
///
/// # Errors
/// [`Error::Missing`] says what is not to be had.
pub fn provide() -> Result<(), Error> {
    if !succeeds(Command::new(QEMU).arg("--version")) {
        return Err(Error::Missing(format!("{QEMU} is not installed")));
    }
    let has_source = || {
        let sysroot =
            Command::new("rustc").arg(format!("+{TOOLCHAIN}")).args(["--print", "sysroot"]).output();
        sysroot.is_ok_and(|output| {
            let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            output.status.success() && root.join("lib/rustlib/src/rust/library/core").exists()
        })
    };
    let install = ["toolchain", "install", TOOLCHAIN, "--profile", "minimal", "--component", "rust-src"];
    if has_source() || succeeds(Command::new("rustup").args(install)) {
        return Ok(());
    }
    Err(Error::Missing(format!("rustup can't install {TOOLCHAIN} with rust-src")))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Builds both kernels of an ostd. Returns a folder with their programs.
///
/// # Errors
/// [`Error`]: a copy can't be made, or is not built.
pub fn build(ostd: Ostd) -> Result<PathBuf, Error> {
    let folder = make::kernel(ostd)?;
    let target = make::workshop().join("target");
    // As `cargo osdk test` builds: its `build_kernel_elf` has the reasons.
    let flags = [
        "-Clink-arg=-Tx86_64.ld",
        "-Crelocation-model=static",
        "-Crelro-level=off",
        "-Cforce-unwind-tables=yes",
        "-Cno-redzone=y",
        "-Ctarget-feature=+ermsb",
        "-Cpanic=unwind",
        "--check-cfg=cfg(ktest)",
        "--cfg=ktest",
        // Both ostd and the core meet lints of a newer compiler.
        "-Awarnings",
    ];
    let mut cargo = Command::new("rustup");
    // Variables of the cargo that runs this would change what is built.
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") || name.starts_with("RUST"))
    {
        if !matches!(name.as_str(), "CARGO_HOME" | "CARGO_NET_OFFLINE" | "RUSTUP_HOME") {
            cargo.env_remove(name);
        }
    }
    cargo
        .args(["run", TOOLCHAIN, "cargo", "build"])
        .args(["--quiet", "--release", "--target", "x86_64-unknown-none"])
        .args(["-Zbuild-std=core,alloc,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    run("rustup run cargo build", &mut cargo)?;
    // Both ways leave programs of the same names.
    make::keep(&target.join("x86_64-unknown-none/release"), &folder)?;
    Ok(folder)
}

/// Boots a kernel that [`build`] made, and returns what it reported.
///
/// # Errors
/// [`Error`]: the emulator can't be run, or it failed. A kernel whose tests fail is no error.
pub fn boot(programs: &std::path::Path, kernel: Kernel) -> Result<Report, Error> {
    let mut qemu = Command::new("timeout");
    // More memory than lies below the hole for devices: ostd maps the tables of ACPI with it.
    qemu.args([LIMIT, QEMU, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "4G", "-no-reboot"])
        .args(["-display", "none", "-monitor", "none", "-serial", "stdio"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
        .arg("-kernel");
    match kernel {
        Kernel::Tests => qemu.arg(programs.join("tests.elf")).args(["-smp", "2"]),
        // A tick of the clock is an instruction.
        Kernel::Measure => qemu.arg(programs.join("measure.elf")).args(["-smp", "1", "-icount", "shift=0"]),
    };
    let output = qemu.stdin(Stdio::null()).output();
    let output = output.map_err(|cause| Error::Program { program: "timeout", how: cause.to_string() })?;
    Ok(Report::read(&String::from_utf8_lossy(&output.stdout)))
}

/// Runs a program, which must succeed.
fn run(program: &'static str, command: &mut Command) -> Result<(), Error> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Program { program, how: status.to_string() }),
        Err(cause) => Err(Error::Program { program, how: cause.to_string() }),
    }
}
