//! The image of `testing/kernel`: building it, and booting it in QEMU.

use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

/// The most bytes of an image, without symbols.
const MOST_BYTES: u64 = 500_000;
pub(crate) const QEMU: Emulator = Emulator { program: "qemu-system-x86_64", package: "qemu-system-x86" };
const INSTALL: [&str; 4] = ["apt-get", "install", "--yes", "--no-install-recommends"];
/// Memory of the machine: the driver's cases hold some 200 MiB with one CPU, and the notes of per-CPU areas are on a heap. The stack is
/// measured with 100,000 areas.
pub(crate) const MEMORY: [&str; 2] = ["512M", "1G"];

/// A program that emulates machines, and the package that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emulator {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

/// The architecture of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Architecture {
    X86,
    Aarch64,
    Riscv64,
}

impl Architecture {
    /// Returns what emulates it.
    pub(crate) const fn qemu(self) -> Emulator {
        match self {
            Self::X86 => QEMU,
            Self::Aarch64 => Emulator { program: "qemu-system-aarch64", package: "qemu-system-arm" },
            Self::Riscv64 => Emulator { program: "qemu-system-riscv64", package: "qemu-system-misc" },
        }
    }

    /// Returns the target that the image is built for.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-none-softfloat",
            Self::Riscv64 => "riscv64imac-unknown-none-elf",
        }
    }

    /// Returns what makes a machine on which the kernel can end with a status.
    fn machine(self) -> &'static str {
        match self {
            Self::X86 => "-device isa-debug-exit,iobase=0xf4,iosize=0x04",
            Self::Aarch64 => "-machine virt -cpu max -semihosting",
            Self::Riscv64 => "-machine virt",
        }
    }
}

/// An image that was built.
pub(crate) struct Image {
    architecture: Architecture,
    path: PathBuf,
    pub(crate) bytes: u64,
}

/// How a machine is made.
#[derive(Clone, Copy)]
pub(crate) struct Boot<'a> {
    pub(crate) cpus: usize,
    pub(crate) memory: &'a str,
    pub(crate) command_line: &'a str,
    /// Words for QEMU besides these.
    pub(crate) devices: &'a str,
    /// One tick of the clock for each instruction, exactly: one CPU only.
    pub(crate) counts_instructions: bool,
    pub(crate) limit: Duration,
    /// Whether lines are shown as they come.
    pub(crate) is_shown: bool,
}

/// What became of it.
pub(crate) struct Run {
    pub(crate) lines: Vec<String>,
    pub(crate) took: Duration,
    pub(crate) status: ExitStatus,
}

impl Run {
    /// Whether the kernel ended the machine with this status of its own (`testing/kernel/src/exit.rs`), which QEMU makes 2n + 1.
    pub(crate) fn ended_with(&self, status: i32) -> bool {
        self.status.code() == Some(2 * status + 1)
    }
}

/// All is well.
pub(crate) const PASSED: i32 = 16;
/// A panic, or an interrupt that nobody expected.
pub(crate) const DIED: i32 = 18;

impl Image {
    /// Builds it.
    pub(crate) fn build(architecture: Architecture) -> Result<Self> {
        let image = Self::build_with(architecture, &[])?;
        if image.bytes > MOST_BYTES {
            bail!("the image has {} bytes, more than {MOST_BYTES}", image.bytes);
        }
        Ok(image)
    }

    /// Builds one with features; cargo says where it is.
    pub(crate) fn build_with(architecture: Architecture, features: &[&str]) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/kernel");
        let mut cargo = process::cargo();
        cargo.args(["build", "--release", "--locked", "--features", &features.join(",")]);
        cargo.args(["--target", architecture.target()]);
        // Where its own flags are, which these would replace.
        cargo.current_dir(folder).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        let path = process::built(&mut cargo)?;
        let bytes = fs::metadata(&path).with_context(|| format!("can't read {}", path.display()))?.len();
        Ok(Self { architecture, path, bytes })
    }

    /// Boots it, and waits for its end.
    pub(crate) fn boot(&self, boot: Boot<'_>) -> Result<Run> {
        let start = Instant::now();
        let mut qemu = Command::new(self.architecture.qemu().program);
        qemu.args(["-accel", "tcg", "-m", boot.memory, "-smp", &boot.cpus.to_string()])
            .arg("-kernel")
            .arg(&self.path)
            .args(["-append", boot.command_line])
            .args(self.architecture.machine().split(' '))
            .args(boot.devices.split_whitespace());
        if boot.counts_instructions {
            qemu.args(["-icount", "shift=0"]);
        }
        let mut machine = Machine::start(&mut qemu, boot.limit)?;
        let mut lines = Vec::new();
        while let Some(line) = machine.line().with_context(|| lines.join("\n"))? {
            if boot.is_shown {
                println!("  {line}");
            }
            lines.push(line);
        }
        Ok(Run { lines, took: start.elapsed(), status: machine.qemu.wait().context("QEMU")? })
    }
}

/// A machine that runs.
pub(crate) struct Machine {
    qemu: Child,
    lines: Receiver<String>,
    until: Instant,
}

impl Machine {
    /// Starts QEMU, which shows nothing but its console.
    pub(crate) fn start(qemu: &mut Command, limit: Duration) -> Result<Self> {
        qemu.args(["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"]);
        let mut qemu =
            qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("can't start QEMU")?;
        let console = qemu.stdout.take().context("no console")?;
        Ok(Self { qemu, lines: read(console), until: Instant::now() + limit })
    }

    /// Returns the next line of the console; `None` when the machine is off.
    pub(crate) fn line(&self) -> Result<Option<String>> {
        match self.lines.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!("the machine is not over in its time"),
        }
    }
}

impl Drop for Machine {
    /// Ends the machine, if it still runs.
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Reads the console in a thread of its own, so that a machine that hangs is noticed.
fn read(console: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Sees to it that QEMU is there: where this program may, it installs it.
pub(crate) fn find_qemu(Emulator { program, package }: Emulator) -> Result<()> {
    let no_qemu = || format!("{program} is not installed; try: {} {package}", INSTALL.join(" "));
    let is_there = || Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if is_there() {
        return Ok(());
    }
    let user = Command::new("id").arg("-u").output().with_context(no_qemu)?;
    if user.stdout.trim_ascii() != b"0" {
        bail!(no_qemu());
    }
    let install: Vec<&str> = INSTALL.into_iter().chain(iter::once(package)).collect();
    eprintln!("{program} is not installed: {}", install.join(" "));
    let installed = Command::new(install[0]).args(&install[1..]).stdout(Stdio::null()).status();
    ensure!(installed.is_ok_and(|status| status.success()) && is_there(), no_qemu());
    Ok(())
}
