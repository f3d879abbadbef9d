//! `cargo xtask qemu`: the allocator as a kernel's, on emulated machines.

use crate::kernel::{self, Architecture, Boot, DIED, Image, MEMORY, PASSED, Run};
use crate::targets;
use anyhow::{Context, Result, bail, ensure};
use std::time::Duration;

/// Boot the kernel that tests vmalloc, with 1, 2 and 4 CPUs
///
/// Builds the image of `testing/kernel`, boots it in QEMU once for each number of CPUs, prints what it prints and checks its exit status;
/// then makes it end badly on purpose, which it has to report. On x86-64 it also boots it with two memory nodes, and measures the stack of each call, which has a bound
/// (docs/porting.md). Installs QEMU where it may.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The machine: its architecture, or all of them.
    #[arg(long, value_enum, default_value = "x86-64")]
    machine: Chosen,
    /// Numbers of CPUs.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    cpus: Vec<usize>,
    /// Turns of each of the driver's cases.
    #[arg(long, default_value_t = 1000)]
    loops: u64,
    /// Seconds that one boot may take.
    #[arg(long, default_value_t = 90)]
    limit: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Chosen {
    #[value(name = "x86-64")]
    X86,
    Aarch64,
    Riscv64,
    All,
}

impl Chosen {
    fn architectures(self) -> &'static [Architecture] {
        const ALL: [Architecture; 3] = [Architecture::X86, Architecture::Aarch64, Architecture::Riscv64];
        match self {
            Self::X86 => &ALL[..1],
            Self::Aarch64 => &ALL[1..2],
            Self::Riscv64 => &ALL[2..],
            Self::All => &ALL,
        }
    }
}

/// CPUs where the stack is measured: one runs, and says that it is each of them in turn.
const STACK_CPUS: usize = 12;

/// Two memory nodes, each half of the memory, and where the second begins.
const NODES: (&str, &str) = (
    "-object memory-backend-ram,id=low,size=256M -object memory-backend-ram,id=high,size=256M \
     -numa node,memdev=low,cpus=0 -numa node,memdev=high,cpus=1",
    "node1=268435456",
);

/// Ways to end badly, and how the report of each begins.
const CRASHES: [(&str, &str); 4] = [
    ("page-fault", "page fault"),
    ("double-fault", "double fault"),
    ("interrupt", "unexpected interrupt"),
    ("panic", "panicked"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    for &architecture in args.machine.architectures() {
        let target = architecture.target();
        if !targets::is_there(target)? {
            let reason = "the toolchain has no library for its target";
            vmalloc_harness::not_run(format!("the kernel on {architecture:?}"), reason);
            continue;
        }
        println!("{architecture:?}:");
        boot_all(args, architecture).with_context(|| format!("{architecture:?}"))?;
    }
    Ok(())
}

fn boot_all(args: &Args, architecture: Architecture) -> Result<()> {
    kernel::find_qemu(architecture.qemu())?;
    let image = Image::build(architecture)?;
    println!("image: {} bytes", image.bytes);
    let limit = Duration::from_secs(args.limit);
    let one = Boot {
        cpus: 1,
        memory: MEMORY[0],
        command_line: "",
        devices: "",
        counts_instructions: false,
        limit,
        is_shown: true,
    };
    for &cpus in &args.cpus {
        let what = format!("{cpus} CPUs");
        println!("{what}:");
        let command_line = &format!("loops={}", args.loops);
        let run = image.boot(Boot { cpus, command_line, ..one }).context(what.clone())?;
        check(&what, &run, PASSED)?;
        println!("{what}: passed in {:.1} s", run.took.as_secs_f64());
    }
    for (crash, report) in CRASHES {
        let command_line = &format!("crash={crash}");
        let boot = Boot { command_line, is_shown: false, ..one };
        let run = image.boot(boot).context(crash)?;
        check(crash, &run, DIED)?;
        if !run.lines.iter().any(|line| line.starts_with(report)) {
            bail!("{crash}: nothing was reported about it");
        }
        println!("{crash}: reported");
    }
    if architecture != Architecture::X86 {
        return Ok(());
    }
    let nodes = Boot { cpus: 2, devices: NODES.0, command_line: NODES.1, ..one };
    let run = image.boot(nodes).context("memory nodes")?;
    check("memory nodes", &run, PASSED)?;
    println!("memory nodes: passed in {:.1} s", run.took.as_secs_f64());
    // The image is built in the place of the other one.
    let stack = Boot { cpus: STACK_CPUS, memory: MEMORY[1], command_line: "stack", limit: limit * 2, ..one };
    let run = Image::build_with(architecture, &["stack"])?.boot(stack).context("stack")?;
    check("stack", &run, PASSED)?;
    println!("stack: within its bounds, in {:.1} s", run.took.as_secs_f64());
    Ok(())
}

fn check(what: &str, run: &Run, status: i32) -> Result<()> {
    ensure!(run.ended_with(status), "{what}: the machine ended with {}", run.status);
    Ok(())
}
