//! The machines: their kernels, what QEMU is told, and what their tests are built for.

use super::package::{self, Foreign};
use crate::kernel::{self, Architecture, Emulator};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A machine that boots a Linux of Debian.
pub(super) struct Kind {
    /// Its name as a word of the command, and on the list of what was not run.
    pub(super) name: &'static str,
    pub(super) emulator: Emulator,
    /// Words for QEMU, parted by spaces: two CPUs that run at a time, and all that the emulator can, such as five levels of
    /// page tables.
    pub(super) machine: &'static str,
    /// The console, and other parameters of its own.
    pub(super) parameters: &'static str,
    /// What it boots, where it is no machine of this architecture.
    foreign: Option<Foreign>,
    /// The target of its tests: static programs, which rustc links without a compiler of C. `None` for programs of this
    /// machine.
    pub(super) target: Option<&'static str>,
}

const PC: &str = "-accel tcg,thread=multi -cpu max -smp 2 -m 3G";
/// A node for each CPU.
const TWO_NODES: &str = "-accel tcg,thread=multi -cpu max -smp 2 -m 3G -object memory-backend-ram,id=low,size=1536M \
    -object memory-backend-ram,id=high,size=1536M -numa node,memdev=low,cpus=0 -numa node,memdev=high,cpus=1";
/// Signed pointers take the emulator half of its time.
const VIRT: &str = "-M virt -accel tcg,thread=multi -cpu max,pauth=off -smp 2 -m 3G";
/// Huge pages are for those who ask: tests count pages.
const ON_PC: &str = "console=ttyS0 transparent_hugepage=madvise";
const TRIXIE: &[&str] = &["trixie", "trixie-backports"];

/// The oldest kernel that is promised.
const OLDEST: &str = "6.1";

/// All machines.
pub(super) const ALL: [Kind; 4] = [
    Kind {
        name: "linux-6.1",
        emulator: kernel::QEMU,
        machine: PC,
        parameters: ON_PC,
        foreign: None,
        target: None,
    },
    Kind {
        name: "huge-pages",
        emulator: kernel::QEMU,
        machine: PC,
        parameters: "console=ttyS0 transparent_hugepage=always",
        foreign: None,
        target: None,
    },
    Kind {
        name: "two-nodes",
        emulator: kernel::QEMU,
        machine: TWO_NODES,
        parameters: ON_PC,
        foreign: None,
        target: None,
    },
    Kind {
        name: "aarch64-16k",
        emulator: Architecture::Aarch64.qemu(),
        machine: VIRT,
        parameters: "console=ttyAMA0 transparent_hugepage=madvise",
        foreign: Some(Foreign { architecture: "arm64", suites: TRIXIE, kernel: "linux-image-arm64-16k" }),
        target: Some("aarch64-unknown-linux-musl"),
    },
];

/// Returns the machine of this name, or all of them.
pub(super) fn chosen(name: Option<&str>) -> Result<Vec<&'static Kind>> {
    let Some(name) = name else { return Ok(ALL.iter().collect()) };
    let names = || ALL.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let found = ALL.iter().find(|kind| kind.name == name);
    Ok(vec![found.with_context(|| format!("no machine is called {name}: {}", names()))?])
}

impl Kind {
    /// Returns the kernel and the shell, fetched into a folder that all machines share.
    pub(super) fn fetched(&self, folder: &Path) -> Result<(PathBuf, PathBuf)> {
        match &self.foreign {
            Some(foreign) => package::foreign(foreign, &folder.join(self.name)),
            None => Ok((package::kernel(OLDEST, folder)?, package::busybox(folder)?)),
        }
    }
}
