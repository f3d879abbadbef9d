//! Resident memory over live bytes, in the steady scene. To be measured in a process of its own, as
//! allocators keep what earlier scenes left them.

use super::Buffers;
use super::contest::steady;
use crate::by_hand::kib;

/// Replacements before the memory is looked at: ten for each live buffer.
const CHURN: usize = 10_000;

/// Returns the memory that `B` keeps resident in the steady scene, over the live bytes.
pub fn per_live<B: Buffers>() -> f64 {
    let before = kib("status", "VmRSS:");
    let mut scene = steady::<B>();
    scene.replace(CHURN);
    (kib("status", "VmRSS:").saturating_sub(before) << 10) as f64 / scene.bytes as f64
}
