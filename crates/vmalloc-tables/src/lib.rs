//! vmalloc on bare machines: a kernel lends a [`Machine`], and gets a [`Platform`].
//!
//! ```text
//!    Space<PageTables<M>>   areas, nodes, lazy free
//!        │ map, unmap, flush, map_frames …
//!    PageTables<M>
//!     ├─ fill               filling, visiting, splitting and emptying the entries of a range
//!     ├─ runs               runs of frames: leaves where they go, groups, entries table by table
//!     ├─ tables             levels of tables; leaves above pages; grown without a lock
//!     ├─ format             what the bits of an entry mean: x86-64, AArch64, RISC-V
//!     ├─ shootdown          issue, dispatch, wait: every other CPU forgets, and says so
//!     └─ lock               spin locks with interrupts off; the purge's with interrupts on
//!        │ frames, forget, interrupt(cpu) …
//!    M: Machine             the kernel's
//! ```
//!
//! | | x86-64 | AArch64 | RISC-V |
//! |---|---|---|---|
//! | `forget` reaches | this CPU | all CPUs | this CPU, or all by firmware |
//! | other CPUs | are interrupted | are not asked | are interrupted |
//! | after a page was mapped | nothing | a barrier | `sfence.vma` here; others ask [`PageTables::is_back`] |
//! | a leaf that is split | is rewritten | is broken first, and a fault waits | is rewritten |
//! | a run of frames | has leaves | has leaves, and groups of a hint | has leaves |
//!
//! # Conditions on the machine
//! 1. The CPU reads tables of the [`Format`]. On x86-64 `EFER.NXE` and `CR0.WP` are set; on AArch64
//!    type 0 of `MAIR_EL1` is cached memory and type 1 a device.
//! 2. All physical memory that the supply hands out, and all page tables, can be read and written
//!    at one offset ([`Machine::direct_map`]).
//! 3. All CPUs use the same top-level entries for the span: one root, or roots of which those
//!    entries were made in advance ([`PageTables::new`] makes them).
//! 4. An interrupt that [`Machine::interrupt`] sends runs a handler that calls
//!    [`PageTables::acknowledge`], unless that CPU has interrupts off, and then as soon as it has
//!    them on.
//! 5. Calls that may purge (everything that allocates, and `purge`, `drain`, `free` …) are made
//!    with interrupts on. With interrupts off, or from a handler, areas are freed with
//!    `free_atomic`. Two CPUs that waited for each other's acknowledgement with interrupts off
//!    would wait for ever.
//! 6. Nothing else writes entries of the span.
//! 7. On AArch64 and RISC-V the handler of page faults asks [`PageTables::is_back`] first. Its
//!    stack, and that of a call that unmaps or protects part of a mapping, lie in no leaf or group
//!    that is split.
//!
//! Page tables are not given back while the platform lives, as in the field, but for those whose
//! place a large page takes: at most one frame for each 2 MiB of addresses ever used. Looks at
//! pages of any owner ([`Translate`], [`ReadNofault`], [`MapFrames::frame_at`]) keep interrupts off
//! for a page or a table at a time.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod entry;
mod fill;
mod format;
#[cfg(test)]
mod format_tests;
mod lock;
mod machine;
#[cfg(test)]
mod machine_tests;
mod platform;
mod run_search;
#[cfg(test)]
mod run_tests;
mod runs;
mod shootdown;
mod span;
mod tables;
#[cfg(test)]
mod tests;

// The core, whole: a kernel needs no other dependency. A doc comment here would stand before that
// of each of its items.
pub use vmalloc::{self, *};

pub use format::{Aarch64Pages4K, Aarch64Pages16K, Format, Sv39, Sv48, X86Levels4};
pub use lock::{IrqLock, OpenLock};
pub use machine::{Interrupts, MAX_CPUS, Machine, Reach};
pub use platform::PageTables;
pub use span::SpanError;
