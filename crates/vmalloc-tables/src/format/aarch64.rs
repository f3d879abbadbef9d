//! Entries of AArch64 (VMSAv8-64, stage 1, the kernel's).

use super::Format;
use core::sync::atomic::AtomicU64;
use vmalloc::Protection;

/// AArch64 with pages of 4 KiB and four levels of tables.
///
/// ```text
///    57    56    55     54 53   52     47 ……… 12   10      9 8     7         4…2   1          0
///    leaf  stale owned  XN PXN  group  frame       used    shared  read only type  page,table present
/// ```
/// Bits 55 to 58 are the system's own. *Group* is the hint that sixteen entries are contiguous. Of
/// the types of memory, 0 is ordinary memory and 1 is a device's (`MAIR_EL1`). Pages are global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aarch64Pages4K;

/// AArch64 with pages of 16 KiB and three levels of tables. Groups have 128 pages; all else is as
/// with [`Aarch64Pages4K`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aarch64Pages16K;

const PRESENT: u64 = 1;
/// Set in an entry of a page and of a table, clear in one of a block.
const PAGE_OR_TABLE: u64 = 1 << 1;
const DEVICE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const GROUP: u64 = 1 << 52;
const NO_EXECUTE: u64 = 1 << 53;
/// For programs, whose code no page of the kernel is.
const NO_EXECUTE_BELOW: u64 = 1 << 54;
/// A block's own bit, for what tells a block from a page is that a bit is clear.
const BLOCK: u64 = 1 << 57;
const ALL: u64 = INNER_SHAREABLE | ACCESSED | NO_EXECUTE_BELOW;

/// Implements [`Format`] for a size of pages.
macro_rules! pages {
    ($name:ident, $entries:literal, $levels:literal, $table:literal, $page:literal, $half:literal,
     $group:literal, $field:literal, $has:pat) => {
        // SAFETY: as the architecture has it. Bits 55 to 57 are the system's.
        unsafe impl Format for $name {
            type Table = [AtomicU64; $entries];
            const LEVELS: u32 = $levels;
            const TABLE_SHIFT: u32 = $table;
            const PAGE_SHIFT: u32 = $page;
            const HALF_SHIFT: u32 = $half;
            const FRAME: u64 = (1 << 48) - (1 << $page);
            const FRAME_SHIFT: u32 = $page;
            const PRESENT: u64 = PRESENT;
            const OWNED: u64 = 1 << 55;
            const STALE: u64 = 1 << 56;
            const TABLE: u64 = PRESENT | PAGE_OR_TABLE;
            const PAGE: u64 = ALL | PAGE_OR_TABLE;
            const LEAF: u64 = ALL | BLOCK;
            const IS_LEAF: u64 = BLOCK;
            const DEVICE: u64 = DEVICE;
            const ACCESS: u64 = READ_ONLY | NO_EXECUTE;
            const GROUP_ORDER: u32 = $group;
            const GROUP: u64 = GROUP;
            const REWRITES_LIVE: bool = false;

            #[inline]
            fn access(protection: Protection) -> u64 {
                match protection {
                    Protection::ReadWrite => NO_EXECUTE,
                    Protection::ReadExecute => READ_ONLY,
                    // An unknown protection allows least.
                    _ => READ_ONLY | NO_EXECUTE,
                }
            }

            /// Looks at the field of `ID_AA64MMFR0_EL1` for this size of pages.
            fn is_read_by(features: u64) -> bool {
                matches!(features >> $field & 15, $has)
            }
        }
    };
}

pages!(Aarch64Pages4K, 512, 4, 9, 12, 48, 4, 28, 0 | 1);
pages!(Aarch64Pages16K, 2048, 3, 11, 14, 47, 7, 20, 1 | 2);
