//! Entries of RISC-V.

use super::Format;
use core::sync::atomic::AtomicU64;
use vmalloc::Protection;

/// RISC-V with three levels of tables, Sv39: 256 GiB at either end of the address space.
///
/// ```text
///    63…54   53 …… 10   9     8     7     6        5      4…3   2       1     0
///            frame      stale owned dirty accessed global  –  execute write read, present
/// ```
/// Bits 8 and 9 are the system's own. *Read* tells a leaf from a table. Pages count as accessed and
/// written from the start, for some CPUs fault at the first access otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sv39;

/// RISC-V with four levels of tables, Sv48: 128 TiB at either end. Its entries are those of
/// [`Sv39`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sv48;

const PRESENT: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
const ALL: u64 = READ | GLOBAL | ACCESSED | DIRTY;

/// Implements [`Format`] for a number of levels.
macro_rules! levels {
    ($name:ident, $levels:literal, $half:literal, $mode:literal) => {
        // SAFETY: as the architecture has it. Bits 8 and 9 are the system's.
        unsafe impl Format for $name {
            type Table = [AtomicU64; 512];
            const LEVELS: u32 = $levels;
            const TABLE_SHIFT: u32 = 9;
            const PAGE_SHIFT: u32 = 12;
            const HALF_SHIFT: u32 = $half;
            const FRAME: u64 = (1 << 54) - (1 << 10);
            const FRAME_SHIFT: u32 = 10;
            const PRESENT: u64 = PRESENT;
            const OWNED: u64 = 1 << 8;
            const STALE: u64 = 1 << 9;
            const TABLE: u64 = PRESENT;
            const PAGE: u64 = ALL;
            const LEAF: u64 = ALL;
            const IS_LEAF: u64 = READ;
            // How devices are accessed the attributes of physical memory say.
            const ACCESS: u64 = WRITE | EXECUTE;

            #[inline]
            fn access(protection: Protection) -> u64 {
                match protection {
                    Protection::ReadWrite => WRITE,
                    Protection::ReadExecute => EXECUTE,
                    // An unknown protection allows least.
                    _ => 0,
                }
            }

            /// Asks for the mode in `satp`.
            fn is_read_by(satp: u64) -> bool {
                satp >> 60 == $mode
            }
        }
    };
}

levels!(Sv39, 3, 38, 8);
levels!(Sv48, 4, 47, 9);
