//! Resident memory over live bytes, in the steady scene. To be measured in a process of its own, as
//! allocators keep what earlier scenes left them.

use super::contest::steady;
use super::{Buffers, PAGE_BYTES};
use std::{fs, io};

/// Replacements before the memory is looked at: ten for each live buffer.
const CHURN: usize = 10_000;

/// Returns the memory that `B` keeps resident in the steady scene, over the live bytes.
///
/// # Errors
/// When the system does not tell what is resident.
pub fn per_live<B: Buffers>() -> io::Result<f64> {
    let before = resident_bytes()?;
    let mut scene = steady::<B>();
    scene.replace(CHURN);
    let after = resident_bytes()?;
    Ok(after.saturating_sub(before) as f64 / scene.bytes as f64)
}

/// The resident set of this process.
fn resident_bytes() -> io::Result<usize> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|field| field.parse::<usize>().ok());
    pages.map(|pages| pages * PAGE_BYTES).ok_or_else(|| io::Error::other("no resident pages in statm"))
}
