//! Slots: reservations of one size, up to terabytes each, with a small head of memory in use. They
//! are allocated, used, freed and reused without a system call as long as little of them was used.
//!
//! WebAssembly runtimes keep a linear memory of 4 GiB and its guards for each instance; arenas and
//! stores of columns do the like. By `mmap` and `munmap` such a memory costs two system calls, a
//! page fault for each page, and an interrupt of the other CPUs, each time.
//!
//! ```
//! use vmalloc::SpaceOptions;
//! use vmalloc_slots::{Dirty, Slots, SlotsOptions};
//!
//! // Addresses for 16,000 slots of 4 GiB. They cost no memory; the default is 512 GiB at most.
//! let addresses = vmalloc_linux::LinuxOptions::new().max_bytes(64 << 40);
//! let space = vmalloc_linux::open(addresses, SpaceOptions::default())?;
//! let options = SlotsOptions::new(4 << 30).head_bytes(64 << 10).guard_after_bytes(32 << 20);
//! let slots = Slots::new(&*space, options)?;
//! let mut slot = slots.alloc()?; // 64 KiB of zeros, in addresses for 4 GiB
//! slot.grow(1 << 20)?;
//! // SAFETY: the page is committed, and no other thread uses the slot. Only its first byte was
//! // written, and it is not used any more.
//! unsafe {
//!     slot.as_ptr().write(7);
//!     slot.free(Dirty::Below(1)); // zeros again, for the next owner
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!   a slot      │ guard before │ head   │ grown          │ addresses only          │ guard after │
//!               │  traps       │ memory │ memory         │  traps                  │  traps      │
//!               area           addr     head             committed                 size
//!
//!   its life                ┌──────────────────── free: little to do ──────────────────┐
//!                           ▼                                                          │
//!      vacant ──reserve─► free ──alloc─► busy: grow, reset ──free: much to do─► waiting │
//!        ▲                  │▲             └─────────────────────────────────────┼─────┘
//!        └──── release ─────┘└───── a batch: one discard and one decommit ───────┘
//! ```
//!
//! # Words
//! A *slot* here is an area of [`Raw::reserve`](vmalloc::Raw::reserve), not a page of a block. A
//! slot is *vacant* if it has no addresses yet, *free* if it can be handed out, *busy* while a
//! [`Slot`] owns it, and *waiting* if it has to be reset before it is free. Memory is *kept* if it
//! stays behind the pages of a free slot, full of zeros.
//!
//! # How a slot is reset
//! The owner tells what it has written ([`Dirty`]). Little is filled with zeros at once: clearing
//! a page takes 50 ns, and dropping it costs 2 µs until it is there again, most of that for the
//! page fault. If the extent may hold pages that were never used, the platform is asked
//! which were ([`Discard::touched`](vmalloc::Discard::touched)). What is too much to keep
//! ([`SlotsOptions::keep_bytes`], [`SlotsOptions::resident_bytes`]) waits, with the slot, for a
//! batch: one call of [`Raw::discard`](vmalloc::Raw::discard) for up to 64 slots, and one of
//! [`Raw::decommit`](vmalloc::Raw::decommit) for memory beyond their heads. So the other CPUs are
//! interrupted once or twice for 64 slots.
//! `cargo run --release -p vmalloc-bench --features buffers --bin memory -- slots`, in the folder
//! `lab`, measures it.
//!
//! # Which slot is handed out
//! [`Slots::alloc_for`] prefers a slot that the same user freed lately, the last first. Then come
//! the slot that is parked on this CPU, and others that this CPU freed lately, then the lowest free
//! one, then one that is parked on another CPU, then a new one, and last those that wait. What was
//! freed lately is remembered for 7 slots a user or CPU, in `recent`.
//!
//! # Age
//! A pool is a [notifier](vmalloc::Notifier) of its space. Each drain calls it, on Linux once
//! a second while anything is left, from the thread that drains all spaces. All waiting slots are
//! reset then, and free slots that were not needed since the last drain lose their memory. So a
//! pool that is used no more keeps none, and memory waits for its reset for a second at most.
//! Addresses cost little: 1,024 free slots keep theirs. Of those beyond, a quarter of the slots
//! that were not needed go back to the space. Where that runs out of addresses, all free slots go
//! back at once.
//!
//! No free is overlooked: it marks the pool, and then has the space know, which asks for a drain. A
//! drain forgets that it was asked, and then looks for the mark.
//!
//! # Invariants
//! - **SLOT-1** A slot is in one of the sets *vacant*, *free*, *waiting*, or has one owner: a
//!   [`Slot`], or a call that is at work on it. The thread that removes a slot from a set owns it.
//!   A free slot may be *parked* on a CPU, see `free_set`.
//! - **SLOT-2** Of the area of a slot exactly the first `committed` pages behind the guard are
//!   committed. If a decommit was refused, pages behind them are still memory, and the slot waits.
//! - **SLOT-3** Everything committed of a free slot reads as zero.
//! - **SLOT-4** At most `kept` pages of a free slot have memory behind them, all below `kept_end`.
//! - **SLOT-5** Pages of a waiting slot that may not read as zero are in `discard`, or beyond the
//!   head and to be decommitted.
//! - **SLOT-6** A record names addresses only while they are the slot's: it is written after they
//!   were reserved, and cleared before they are given back. So the child of a fork, which drops the
//!   pool by its records, frees no area of another owner.
//!
//! # Threads and forks
//! There is no lock: a slot leaves a set by one atomic operation on a bit. So a fork finds nothing
//! locked, and the child goes on, on a space that [survives
//! forks](../vmalloc_linux/fn.open.html). Slots that other threads owned at the fork, those that
//! they were resetting included, are lost to the child until it drops the pool. Addresses that
//! another thread was reserving or giving back at the fork are lost to it for good (SLOT-6), and
//! those of the whole pool, once it is dropped, if that thread was in a drain of the space. Counts
//! may be off by as many. A fork waits for the drain thread, so it is never in one.
//!
//! # Huge pages
//! Bounds are in pages, of which the owner knows which were written. Where the kernel puts huge
//! pages by itself (`transparent_hugepage/enabled` is `always`), the first touch of a head of 2 MiB
//! brings all of it, and the rest stays behind a slot that was reset. So a pool with such heads
//! belongs on a space without them (`vmalloc_linux::LinuxOptions::huge_pages(false)`), unless its
//! slots are used as a whole.
//!
//! # Failures
//! A new slot whose head can't be committed is given back to the space. A slot that can't be reset,
//! or given back, goes on waiting. So nothing is lost, and everything is tried again.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod clear;
mod dirty;
mod error;
mod free_set;
mod index_set;
#[cfg(all(test, loom))]
mod models;
mod options;
mod pool;
mod recent;
mod record;
mod slot;
mod stats;
mod sync;
mod turns;

pub use dirty::Dirty;
pub use error::{SlotError, SlotsError};
pub use options::{BeyondHead, SlotsOptions};
pub use pool::Slots;
pub use slot::{Slot, SlotsRef};
pub use stats::SlotsStats;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
