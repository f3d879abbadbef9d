//! The cost of a process and its children, as the kernel counts it.

use super::under;
use anyhow::{Context, Result};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Stdio;

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) cpu_s: f64,
    pub(super) faults: f64,
    pub(super) peak_mib: f64,
    pub(super) ended_well: bool,
}

/// Runs a command under a library, or none, with some settings, and returns its cost.
pub(super) fn run(words: &[String], library: Option<&Path>, settings: &[(&str, &str)]) -> Result<Cost> {
    let failed = || format!("can't run {}", words[0]);
    let mut command = under(library, &words[0], settings);
    command.args(&words[1..]).env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().with_context(failed)?;
    wait(child.id()).ok_or_else(std::io::Error::last_os_error).with_context(failed)
}

/// Waits for a child, and returns its cost.
pub(super) fn wait(pid: u32) -> Option<Cost> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::uninit());
    // SAFETY: room for both answers. The child is ours, and nothing else waits for it.
    let waited = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr()) };
    if waited != pid as libc::pid_t {
        return None;
    }
    // SAFETY: the call has written it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Some(Cost {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        faults: usage.ru_minflt as f64,
        peak_mib: usage.ru_maxrss as f64 / 1024.0,
        ended_well: status == 0,
    })
}

/// Returns the middle one of some numbers.
pub(super) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
