//! Kernels of Hermit, as published and with `vmalloc`: made from the registry, built, and booted in QEMU.

mod edits;
mod make;
mod report;

pub use report::{Report, Row};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thiserror::Error;

/// The toolchain that builds a kernel. Its features that are not stable are allowed.
const TOOLCHAIN: &str = "1.95.0";
/// Its default features but for names of devices and drivers of devices that the machine lacks; and mappings.
const FEATURES: &str = "acpi,dhcpv4,fsgsbase,mmap,pci,smp,tcp";
/// The machine that is emulated.
const QEMU: &str = "qemu-system-x86_64";
/// Seconds that one boot may take: it takes some five where nothing else runs.
const LIMIT: &str = "300";

/// A Hermit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hermit {
    /// The published one, and what boots it and looks at it.
    Published,
    /// The one whose addresses and stacks come from `vmalloc`.
    OnVmalloc,
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

/// Sees to it that toolchain and emulator are there.
///
/// # Errors
/// [`Error::Missing`] says what is not to be had.
pub fn provide() -> Result<(), Error> {
    if !succeeds(Command::new(QEMU).arg("--version")) {
        return Err(Error::Missing(format!("{QEMU} is not installed")));
    }
    let target = ["--toolchain", TOOLCHAIN, "x86_64-unknown-none"];
    if succeeds(Command::new("rustup").args(["target", "add"]).args(target)) {
        return Ok(());
    }
    Err(Error::Missing(format!("rustup has no Rust {TOOLCHAIN} for x86_64-unknown-none")))
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Kernels, each with a program, by the name of the program.
pub type Kernels = BTreeMap<String, PathBuf>;

/// Builds the kernels of a Hermit: one for each of its tests and of ours.
///
/// # Errors
/// [`Error`]: a copy can't be made, or is not built.
pub fn build(hermit: Hermit) -> Result<Kernels, Error> {
    let folder = make::kernel(hermit)?;
    let flags = [
        format!("-Clink-arg=-T{}", make::script().display()),
        "-Crelocation-model=static".into(),
        // Both kernel and core meet lints of a newer compiler.
        "-Awarnings".into(),
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
        .args(["run", TOOLCHAIN, "cargo", "test", "--no-run", "--test", "*"])
        .args(["--no-default-features", "--features", FEATURES])
        .args(["--quiet", "--release", "--target", "x86_64-unknown-none", "--message-format=json"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", make::workshop().join("target"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let output = cargo.stderr(Stdio::inherit()).output();
    let failed = |how| Error::Program { program: "rustup run cargo test", how };
    let output = output.map_err(|cause| failed(cause.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.split("\"executable\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    Ok(paths.filter_map(named).collect())
}

/// Returns a program with its name, which cargo has put before a hash.
fn named(path: &str) -> Option<(String, PathBuf)> {
    let (name, _) = Path::new(path).file_name()?.to_str()?.rsplit_once('-')?;
    Some((name.into(), path.into()))
}

/// The processors that a kernel is booted on.
#[derive(Clone, Copy, Debug)]
pub enum Cpus {
    /// So many.
    Some(u32),
    /// One, whose instructions are counted.
    Counted,
}

/// Boots a kernel that [`build`] made, with two words for its program, and returns what it reported.
///
/// # Errors
/// [`Error`]: the emulator can't be run. A kernel that fails is no error.
pub fn boot(kernel: &Path, cpus: Cpus) -> Result<Report, Error> {
    let mut qemu = Command::new("timeout");
    // As Hermit's own runner does, with memory for thousands of stacks.
    qemu.args([
        LIMIT,
        QEMU,
        "-accel",
        "tcg",
        "-m",
        "2G",
        "-no-reboot",
        "-display",
        "none",
        "-monitor",
        "none",
    ])
    .args(["-cpu", "qemu64,apic,fsgsbase,rdtscp,xsave,xsaveopt,fxsr", "-serial", "stdio"])
    .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"])
    .args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,disable-legacy=on"])
    .arg("-kernel")
    .arg(kernel)
    .args(["-append", "kernel -- one two"]);
    match cpus {
        Cpus::Some(count) => qemu.args(["-smp", &count.to_string()]),
        // A tick of the clock is an instruction.
        Cpus::Counted => qemu.args(["-smp", "1", "-icount", "shift=0"]),
    };
    let output = qemu.stdin(Stdio::null()).output();
    let output = output.map_err(|cause| Error::Program { program: "timeout", how: cause.to_string() })?;
    Ok(Report::read(&String::from_utf8_lossy(&output.stdout), output.status.code()))
}
