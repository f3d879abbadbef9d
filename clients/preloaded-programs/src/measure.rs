//! The cost of a process and its children, as the kernel counts it.

use crate::Setup;
use anyhow::{Context, Result, ensure};
use std::mem::MaybeUninit;
use std::process::Stdio;

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU seconds of the program and of all processes that it has waited for.
    pub cpu_s: f64,
    /// Their page faults.
    pub faults: f64,
    /// The largest of them: its memory when it was largest.
    pub peak_mib: f64,
    /// True if the program ended with status 0.
    pub ended_well: bool,
}

/// Runs a command, and returns its cost.
///
/// # Errors
/// It can't be started.
pub fn run(words: &[String], setup: &Setup<'_>) -> Result<Cost> {
    let failed = || format!("can't run {}", words[0]);
    let mut command = setup.command(&words[0]);
    command.args(&words[1..]).env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().with_context(failed)?;
    wait(child.id()).ok_or_else(std::io::Error::last_os_error).with_context(failed)
}

/// Waits for a server that was asked to end. Returns its cost.
pub(crate) fn ended(pid: u32, program: &str) -> Result<Cost> {
    let cost = wait(pid).with_context(|| format!("{program} can't be waited for"))?;
    ensure!(cost.ended_well, "{program} did not end well");
    Ok(cost)
}

/// Waits for a child, and returns its cost.
fn wait(pid: u32) -> Option<Cost> {
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
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
