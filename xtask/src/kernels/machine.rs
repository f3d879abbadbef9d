//! A machine of QEMU, and what its console says.

use anyhow::{Context, Result, bail};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
/// Two threads of this machine. `max` is all that the emulator can: five levels of page tables too.
const MACHINE: [&str; 8] = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G"];
const CONSOLE: [&str; 7] = ["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"];
/// Parameters of each kernel. A panic ends the machine, and messages of the kernel stay out of the tests' output. Huge
/// pages are for those who ask: tests count pages.
const PARAMETERS: &str = "console=ttyS0 loglevel=1 panic=-1 transparent_hugepage=madvise";

/// A machine that runs.
pub(super) struct Machine {
    qemu: Child,
    lines: Receiver<String>,
    until: Instant,
}

impl Machine {
    /// Boots a kernel.
    pub(super) fn boot(kernel: &Path, initramfs: &Path, more: &str, limit: Duration) -> Result<Self> {
        let mut qemu = Command::new(QEMU)
            .args(MACHINE)
            .args(CONSOLE)
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", &format!("{PARAMETERS} {more}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context(QEMU)?;
        let console = qemu.stdout.take().context("no console")?;
        Ok(Self { qemu, lines: read(console), until: Instant::now() + limit })
    }

    /// Returns the next line of the console; `None` when the machine is off.
    pub(super) fn line(&self) -> Result<Option<String>> {
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
