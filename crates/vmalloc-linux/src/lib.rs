//! The Linux user-space platform of vmalloc: anonymous memory in one reserved span of addresses.
//!
//! ```text
//!  space.rs     a whole allocator in one call: `open`
//!  reserve.rs   options and limits ──► one reservation, and the means that this kernel has
//!  options.rs   what may be asked for; error.rs  why not; limits.rs  what the machine allows, read heap-free
//!
//!  platform.rs  the `vmalloc` traits ──┬─► markers.rs  guard pages as page-table marks (Linux 6.13+)
//!                                      │     frontier.rs   which chunks are open at all
//!                                      ├─► islands.rs  guard pages as inaccessible mappings (older kernels)
//!                                      └─► special.rs  pages that are neither, and how they become so again
//!                                            table.rs      what stands behind which page
//!  windows.rs   frames in the span         supply.rs   who has which frame; bitmap.rs  sets of frames
//!  relocate.rs  pages moved to other addresses      huge.rs  huge pages      peek.rs  reading what may not be there
//!  budget.rs    how many mappings all of these may still make
//!
//!  memory.rs    the reservation, and every call that changes it
//!  batch.rs     many ranges, few calls;  advise.rs  madvise(2), process_madvise(2)
//!
//!  cpu.rs  which CPU runs this      lock.rs  a lock that survives fork      fork.rs  hooks around fork
//!  pagemap.rs  frame numbers    drainer.rs  the thread that drains in the background
//!  grace.rs    freeing after all readers have gone      sync.rs  the drain thread's sleep, and its model
//! ```
//!
//! # What holds
//! - Nothing here allocates from the heap after [`Linux::reserve`] (nor in it, on the way to success), so a
//!   global allocator may stand on it. [`open`] does, and the space and its drain do, see [`on_drain_thread`].
//!   [`Grace`] allocates too: for its collector, and for records that are not embedded.
//! - A page of the span can be touched if and only if it is in a mapped range. Guard pages, free pages and
//!   pages freed and purged raise `SIGSEGV`; system calls that are given their address fail with `EFAULT`.
//! - A scattered purge costs one interrupt of the other CPUs for each 1024 ranges, not one a range. Its price
//!   is a window: between the two calls of a batch a stale access reads zeros (or writes to a page that is
//!   then dropped) instead of trapping.
//! - After `fork` the child owns a copy of everything and may go on: see [`fork`](AtFork). But for
//!   [frames](vmalloc::Frames) taken before: these are shared memory. What the child takes itself is its own, and what
//!   its parent took it can't give back to the supply.
//! - Whatever was done to pages, mapped to frames, protected, moved, unmapping them makes them plain again, for a call
//!   or two more.
//!
//! # What does not
//! - `mlockall(MCL_FUTURE)` before the reservation makes it fail, and `mlock` on it makes its purges fail:
//!   the kernel neither guards nor drops locked pages.
//! - Under strict overcommit (`vm.overcommit_memory=2`) and `RLIMIT_DATA` each open chunk counts whole
//!   ([`CHUNK_PAGES`]), not only the part of it that is mapped.
//! - Each run of scattered frames is a mapping to the kernel, of which a program may have 65,530 (`vm.max_map_count`):
//!   seven eighths of these are used, then [`MapLimit`](vmalloc::PlatformFault::MapLimit) is the answer.
//! - Near `RLIMIT_AS`, mapping frames needs as many bytes of addresses as they have for the moment of the call.

mod advise;
mod batch;
mod bitmap;
mod budget;
mod cpu;
mod drainer;
mod error;
mod fork;
mod frontier;
mod grace;
mod huge;
mod islands;
mod limits;
mod lock;
mod markers;
mod memory;
mod options;
mod pagemap;
mod peek;
mod platform;
mod relocate;
mod reserve;
mod space;
mod special;
mod supply;
mod sync;
mod table;
mod windows;

pub use drainer::on_drain_thread;
pub use error::ReserveError;
pub use fork::{AtFork, RegisterError, register, register_static};
pub use frontier::CHUNK_PAGES;
pub use grace::{DeferError, Grace, Head, Pin, SettleError, pin};
pub use lock::FutexLock;
pub use options::{Guards, Options, Vectors};
pub use platform::Linux;
pub use space::{OpenError, open};

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
