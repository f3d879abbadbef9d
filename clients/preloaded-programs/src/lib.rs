//! Debian's memcached, PostgreSQL, redis and node under `libvmalloc_malloc.so`: loads whose contents are verified, and what
//! they cost.
//!
//! The loads of redis, and how a process is measured, are those of `cargo xtask preload`: its files are used from where they
//! are, so that they are written once.

#[path = "../../../xtask/src/preload/measure.rs"]
#[expect(dead_code, reason = "xtask runs programs by it")]
mod measure;
mod memcached;
mod node;
mod postgres;
#[path = "../../../xtask/src/preload/redis.rs"]
mod redis_load;

use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// Why a load did not end well.
#[derive(Debug, Error)]
pub enum Error {
    /// A program can't be started, or a file can't be made.
    #[error("can't run {what}: {cause}")]
    Run {
        /// The attempt.
        what: String,
        /// Why not.
        cause: std::io::Error,
    },
    /// The preload library can't be built.
    #[error("the library can't be built")]
    Build,
    /// A load that `cargo xtask preload` has as well.
    #[error("{0:#}")]
    Shared(#[from] anyhow::Error),
    /// A program answered something else than it should.
    #[error("{program}: {why}")]
    Wrong {
        /// The program.
        program: &'static str,
        /// What it answered.
        why: String,
    },
}

/// The cost of one load, of the program and all processes that it has waited for.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU seconds.
    pub cpu_s: f64,
    /// Page faults.
    pub faults: f64,
    /// The largest process: its memory when it was largest.
    pub peak_mib: f64,
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The library that is preloaded.
    pub library: Option<&'a Path>,
    /// Variables of its environment.
    pub settings: &'a [(&'a str, &'a str)],
}

impl Setup<'_> {
    /// Preloads the library into a command.
    fn apply(&self, command: &mut Command) {
        if let Some(library) = self.library {
            command.env("LD_PRELOAD", library);
        }
        command.envs(self.settings.iter().copied());
    }
}

/// A load on one program of others.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The name of the program, and of the load.
    pub name: &'static str,
    /// The file that has to be there.
    pub program: &'static str,
    /// Runs it, and verifies what it answers.
    pub run: fn(&Setup<'_>) -> Result<Cost, Error>,
}

/// All loads.
pub const LOADS: [Load; 5] = [
    Load { name: "memcached", program: "/usr/bin/memcached", run: memcached::run },
    Load { name: "PostgreSQL", program: "/usr/lib/postgresql/15/bin/postgres", run: postgres::run },
    Load { name: "redis, values that grow", program: "/usr/bin/redis-server", run: redis },
    Load { name: "node, buffers of 1 MiB", program: "/usr/bin/node", run: node::buffers },
    Load { name: "node, strings and JSON", program: "/usr/bin/node", run: node::strings },
];

impl Load {
    /// Returns true if the program is installed, and tells where it is not.
    pub fn is_there(&self) -> bool {
        let there = Path::new(self.program).exists();
        if !there {
            println!("NOT RUN: {}: {} is not installed", self.name, self.program);
        }
        there
    }
}

fn redis(setup: &Setup<'_>) -> Result<Cost, Error> {
    let load = redis_load::load(setup.library, setup.settings)?;
    Ok(Cost { cpu_s: load.cpu_s, faults: load.faults, peak_mib: load.peak_mib })
}

/// Builds the preload library as it is delivered. Returns a copy that any user may read.
///
/// # Errors
/// [`Error`]: it can't be built or copied.
pub fn library() -> Result<PathBuf, Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let words = ["build", "--quiet", "--release", "--package", "vmalloc-preload"];
    let mut cargo = Command::new("cargo");
    let status = cargo.args(words).current_dir(&root).env("CARGO_TARGET_DIR", &target).status();
    if !status.map_err(|cause| Error::Run { what: "cargo".into(), cause })?.success() {
        return Err(Error::Build);
    }
    let copy = scratch()?.join("libvmalloc_malloc.so");
    let copied = std::fs::copy(target.join("release/libvmalloc_malloc.so"), &copy);
    copied.map_err(|cause| Error::Run { what: "copy of the library".into(), cause })?;
    Ok(copy)
}

/// Returns glibc's own library. Preloaded, it takes the place of an allocator to which a program is linked, as Debian's redis
/// is to jemalloc.
pub fn glibc() -> Option<PathBuf> {
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.iter().map(|folder| Path::new(folder).join("libc.so.6")).find(|path| path.exists())
}

/// Returns the folder for what the loads make, which every user may enter.
fn scratch() -> Result<PathBuf, Error> {
    let folder = std::env::temp_dir().join(format!("vmalloc-preloaded-{}", std::process::id()));
    let cause = |cause| Error::Run { what: format!("mkdir {}", folder.display()), cause };
    std::fs::create_dir_all(&folder).map_err(cause)?;
    Ok(folder)
}

/// Removes what the loads have made.
pub fn clean() {
    if let Ok(folder) = scratch() {
        // What stays is a few megabytes of a temporary folder.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Waits for a server that was asked to end. Returns its cost.
fn ended(pid: u32, program: &'static str) -> Result<Cost, Error> {
    let cost = measure::wait(pid).filter(|cost| cost.ended_well);
    let cost = cost.ok_or_else(|| Error::Wrong { program, why: "it did not end well".into() })?;
    Ok(Cost { cpu_s: cost.cpu_s, faults: cost.faults, peak_mib: cost.peak_mib })
}

/// Sends a signal to a child of this process that was not waited for.
fn signal(pid: u32, number: libc::c_int) {
    // SAFETY: the call reads and writes no memory of ours; the child was not waited for, so the id is its own.
    unsafe { libc::kill(pid as libc::pid_t, number) };
}

/// Returns the median.
///
/// # Panics
/// When there are no numbers.
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    measure::median(numbers)
}
