//! Formats of page tables: what the bits of an entry mean to a CPU.
//!
//! ```text
//!                    levels × bits   page      leaves above pages   a live entry
//!   X86Levels4          4 × 9         4 KiB    2 MiB, 1 GiB         may be rewritten
//!   Aarch64Pages4K      4 × 9         4 KiB    2 MiB, 1 GiB         is broken before it is made
//!   Aarch64Pages16K     3 × 11       16 KiB    32 MiB               is broken before it is made
//!   Sv39, Sv48      3, 4 × 9          4 KiB    2 MiB, 1 GiB         may be rewritten
//! ```

mod aarch64;
mod riscv;
mod x86_64;

pub use aarch64::{Aarch64Pages4K, Aarch64Pages16K};
pub use riscv::{Sv39, Sv48};
pub use x86_64::X86Levels4;

use core::fmt::Debug;
use core::sync::atomic::AtomicU64;
use vmalloc::Protection;

/// A format of page tables, whose entries are words of 64 bits. The crate has those of x86-64,
/// AArch64 and RISC-V.
///
/// # Safety
/// - The CPU reads entries of these bits as they are described here. Entries of 0 lead nowhere.
/// - [`OWNED`](Self::OWNED) and [`STALE`](Self::STALE) are bits that the CPU ignores, apart from
///   each other and from all others.
pub unsafe trait Format: Copy + Eq + Debug + Send + Sync + 'static {
    /// The entries of a table: 2^[`TABLE_SHIFT`](Self::TABLE_SHIFT) words.
    type Table: AsRef<[AtomicU64]>;

    /// Levels of tables. Pages are in those of level 1.
    const LEVELS: u32;
    /// log2 of the entries of a table.
    const TABLE_SHIFT: u32;
    /// log2 of the bytes of a page.
    const PAGE_SHIFT: u32;
    /// log2 of the bytes that are translated at either end of the address space.
    const HALF_SHIFT: u32;

    /// The bits of a frame's number.
    const FRAME: u64;
    /// The lowest bit of a frame's number.
    const FRAME_SHIFT: u32;
    /// The bit of an entry that is used.
    const PRESENT: u64;
    /// The system's bit for a frame that is the area's, and goes back when the area is flushed.
    const OWNED: u64;
    /// The system's bit for a page that was unmapped and may still be cached by some CPU.
    const STALE: u64;
    /// Bits of an entry that leads to a table.
    const TABLE: u64;
    /// Bits of every page.
    const PAGE: u64;
    /// Bits of every leaf above level 1.
    const LEAF: u64;
    /// A bit of [`LEAF`](Self::LEAF) that no entry of a table has.
    const IS_LEAF: u64;
    /// Bits that a page or leaf of a device has besides.
    const DEVICE: u64 = 0;
    /// The bits by which protections differ.
    const ACCESS: u64;

    /// log2 of the pages of a *group*: neighbours that lead to as many frames in a row, from a
    /// multiple of their number on. A CPU may keep one translation for all of a group whose entries
    /// have the bit [`GROUP`](Self::GROUP). 0 where CPUs have no such thing.
    const GROUP_ORDER: u32 = 0;
    /// The bit of entries of a group, or 0.
    const GROUP: u64 = 0;
    /// False if no CPU may see two present entries one after the other for one page that differ in
    /// their size or group: the entry is broken, then all CPUs forget it, then the next is made.
    const REWRITES_LIVE: bool = true;

    /// Returns the bits of [`ACCESS`](Self::ACCESS) that allow accesses by `protection`.
    fn access(protection: Protection) -> u64;

    /// Returns true if a CPU whose [`translation`](crate::Machine::translation) is this reads
    /// tables of this format.
    fn is_read_by(translation: u64) -> bool;
}
