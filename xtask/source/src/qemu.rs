//! `cargo xtask qemu`: the allocator as a kernel's, on emulated machines.

use crate::kernel::{self, Boot, DIED, Image, PASSED, Run};
use std::time::Duration;

/// Boot the kernel that tests vmalloc, with 1, 2 and 4 CPUs
///
/// Builds the image of `testing/kernel`, boots it in QEMU once for each number of CPUs, prints what it prints and checks its exit status;
/// then makes it end badly on purpose, which it has to report. Installs QEMU where it may.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of CPUs
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u8).range(1..=16))]
    cpus: Vec<u8>,
    /// Turns of each of the driver's cases
    #[arg(long, default_value_t = 1000)]
    loops: u64,
    /// Seconds that one boot may take
    #[arg(long, default_value_t = 90)]
    limit: u64,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    #[error("{what}: not over after {} seconds", limit.as_secs())]
    Late { what: String, limit: Duration },
    #[error("{what}: the machine ended with {status}")]
    Failed { what: String, status: std::process::ExitStatus },
    #[error("{what}: nothing was reported about it")]
    Silent { what: String },
}

/// Ways to end badly, and how the report of each begins.
const CRASHES: [(&str, &str); 4] = [
    ("page-fault", "page fault"),
    ("double-fault", "double fault"),
    ("interrupt", "unexpected interrupt"),
    ("panic", "panicked"),
];

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    kernel::find_qemu()?;
    let image = Image::build()?;
    println!("image: {} bytes", image.bytes);
    let limit = Duration::from_secs(args.limit);
    for &cpus in &args.cpus {
        let cpus = usize::from(cpus);
        let what = format!("{cpus} CPUs");
        println!("{what}:");
        let command_line = &format!("loops={}", args.loops);
        let boot = Boot { cpus, command_line, counts_instructions: false, limit, is_shown: true };
        let run = image.boot(boot)?;
        check(&what, &run, PASSED, limit)?;
        println!("{what}: passed in {:.1} s", run.took.as_secs_f64());
    }
    for (crash, report) in CRASHES {
        let command_line = &format!("crash={crash}");
        let boot = Boot { cpus: 1, command_line, counts_instructions: false, limit, is_shown: false };
        let run = image.boot(boot)?;
        check(crash, &run, DIED, limit)?;
        if !run.lines.iter().any(|line| line.starts_with(report)) {
            return Err(Error::Silent { what: crash.to_owned() });
        }
        println!("{crash}: reported");
    }
    Ok(())
}

fn check(what: &str, run: &Run, status: i32, limit: Duration) -> Result<(), Error> {
    let what = what.to_owned();
    match run.status {
        None => Err(Error::Late { what, limit }),
        Some(_) if run.ended_with(status) => Ok(()),
        Some(status) => Err(Error::Failed { what, status }),
    }
}
