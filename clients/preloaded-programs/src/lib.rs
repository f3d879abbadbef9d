//! Programs of others under `libvmalloc_malloc.so`: whether they answer as without it, and what they cost.
//!
//! - [`suites`]: programs, CPython's tests and those of Debian's source packages, compared with runs without the library.
//! - [`loads`]: what is measured, a table of command lines and three servers, whose answers are verified.
//! - [`measure`]: the cost of a process. [`summary`]: what a measurement says in all.

pub mod loads;
pub mod measure;
mod memcached;
mod postgres;
mod programs;
mod python;
mod redis;
mod sources;
pub mod suites;
pub mod summary;
pub mod tools;

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
pub use vmalloc_harness::not_run;

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The name of the allocator, or of its settings.
    pub name: &'a str,
    /// The library that is preloaded.
    pub library: Option<&'a Path>,
    /// Variables of its environment.
    pub settings: &'a [(&'a str, &'a str)],
}

impl<'a> Setup<'a> {
    /// Nothing is preloaded.
    pub const NONE: Self = Self { name: "without", library: None, settings: &[] };

    /// Returns the setups of the suites: all blocks of a page and more from the first one on, and as it is by default.
    pub fn of_suites(library: &'a Path) -> [Self; 2] {
        let all: &[(&str, &str)] = &[("VMALLOC_THRESHOLD", "4096"), ("VMALLOC_START", "0")];
        [("threshold 4096", all), ("default", &[])].map(|(name, settings)| Self {
            name,
            library: Some(library),
            settings,
        })
    }

    /// Returns a command under the library.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.apply(&mut command);
        command
    }

    /// Preloads the library into a command. The variables of who runs this are no settings of the library, which would tell that
    /// it ignores them.
    fn apply(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"VMALLOC_")) {
            command.env_remove(name);
        }
        command.envs(self.settings.iter().copied()).stdin(Stdio::null());
        if let Some(library) = self.library {
            command.env("LD_PRELOAD", library);
        }
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds the preload library as it is delivered. Returns a copy that any user may read.
///
/// # Errors
/// It can't be built or copied.
pub fn library() -> Result<PathBuf> {
    let words = ["build", "--quiet", "--release", "--package", "vmalloc-preload"];
    let mut cargo = Command::new("cargo");
    let status =
        cargo.args(words).current_dir(root()).env("CARGO_TARGET_DIR", target()).status().context("cargo")?;
    ensure!(status.success(), "the library can't be built");
    let copy = scratch()?.join("libvmalloc_malloc.so");
    fs::copy(target().join("release/libvmalloc_malloc.so"), &copy).context("copy of the library")?;
    Ok(copy)
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    std::path::absolute(&target).unwrap_or(target)
}

/// Returns the folder for what the runs make and later ones use.
fn kept() -> Result<PathBuf> {
    let folder = target().join("preload");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder)
}

/// Returns the folder of this run, which every user may enter.
fn scratch() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("vmalloc-preloaded-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder)
}

/// Removes what this run has made.
pub fn clean() {
    if let Ok(folder) = scratch() {
        // What stays is a few megabytes of a temporary folder.
        let _ = fs::remove_dir_all(folder);
    }
}

/// Sends a signal to a child of this process that was not waited for.
fn signal(pid: u32, number: libc::c_int) {
    // SAFETY: the call reads and writes no memory of ours; the child was not waited for, so the id is its own.
    unsafe { libc::kill(pid as libc::pid_t, number) };
}
