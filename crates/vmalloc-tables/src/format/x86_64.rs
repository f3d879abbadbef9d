//! Entries of x86-64.

use super::Format;
use core::sync::atomic::AtomicU64;
use vmalloc::Protection;

/// x86-64 with four levels of tables.
///
/// ```text
///    63   62…52   51 ………………… 12   11   10     9      8   7    6 5   4 3   2    1    0
///    NX           frame             –  stale  owned  –  leaf  – –   cache   –  write present
/// ```
/// Bits 9 to 11 are the system's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct X86Levels4;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
/// Of `CR4`: entries have 64 bits, and there are five levels.
const WIDE: u64 = 1 << 5;
const FIVE_LEVELS: u64 = 1 << 12;

// SAFETY: as the architecture has it. Bits 9 and 10 are the system's.
unsafe impl Format for X86Levels4 {
    type Table = [AtomicU64; 512];
    const LEVELS: u32 = 4;
    const TABLE_SHIFT: u32 = 9;
    const PAGE_SHIFT: u32 = 12;
    const HALF_SHIFT: u32 = 47;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;
    const FRAME_SHIFT: u32 = 12;
    const PRESENT: u64 = PRESENT;
    const OWNED: u64 = 1 << 9;
    const STALE: u64 = 1 << 10;
    // The entries of its pages say what may be done with them.
    const TABLE: u64 = PRESENT | WRITABLE;
    const PAGE: u64 = 0;
    const LEAF: u64 = LARGE;
    const IS_LEAF: u64 = LARGE;
    // How devices are cached the ranges of memory types (MTRRs) say.
    const ACCESS: u64 = WRITABLE | NO_EXECUTE;

    #[inline]
    fn access(protection: Protection) -> u64 {
        match protection {
            Protection::ReadWrite => WRITABLE | NO_EXECUTE,
            Protection::ReadExecute => 0,
            // An unknown protection allows least.
            _ => NO_EXECUTE,
        }
    }

    fn is_read_by(cr4: u64) -> bool {
        cr4 & (WIDE | FIVE_LEVELS) == WIDE
    }
}
