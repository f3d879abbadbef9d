//! The Linux user-space platform of vmalloc: anonymous memory in one reserved span of addresses.
//!
//! ```text
//!  opened.rs    a whole allocator in one call, `open`; parts of one that survive forks
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
//!  grace.rs    freeing after all readers have gone    fatal.rs  the end of a damaged program
//!  sync.rs     the drain thread's sleep, and its model
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
//! - After `fork` the child owns a copy of everything and may go on, whatever other threads were
//!   doing: with every space of [`open`] and [`share`], and every root of [`open_root`]. What a
//!   thread owned that the child does not have is lost to the child. But for
//!   [frames](vmalloc::Frames) taken before: these are shared memory. What the child takes itself
//!   is its own, and what its parent took it can't give back to the supply.
//! - A space or root made by hand is for programs that do not fork while other threads use it. A
//!   child that finds a lock of it held stops with a message, see [`FutexLock`].
//! - [`vfree_atomic`](vmalloc::Space::vfree_atomic) and [`try_find`](vmalloc::Space::try_find) may
//!   be called in a signal handler, and no other call of a space may. They create no thread, take
//!   no memory, wait for nothing, and leave `errno` as it is.
//! - Whatever was done to pages, mapped to frames, protected, moved, unmapping them makes them plain again, for a call
//!   or two more.
//!
//! # What does not
//! - `mlockall` locks the areas that are in use, and none that is allocated later, also with `MCL_FUTURE`: the kernel
//!   neither guards nor drops locked pages, and would put memory behind every address of an opened chunk. An owner who
//!   needs locked memory locks its area (`mlock`). Only with [`Guards::Mprotect`], and after `MCL_CURRENT`, is what is
//!   allocated later locked as well, and then there is memory behind all of it at once.
//! - Purging an area unlocks its pages, and those of no other. An area that is cached stays locked for its next owner.
//!   Unlocking a part of what is locked costs mappings, see below. Where it is refused (a sandbox, the limit on mappings)
//!   the area stays back with the space, without its memory (Linux 5.18), and is tried again: a purge fails with
//!   [`Locked`](vmalloc::PlatformFault::Locked) or `MapLimit` then, and [`Stats`](vmalloc::Stats) count what stays.
//! - Without the right to lock much (`RLIMIT_MEMLOCK`), `mlockall(MCL_FUTURE)` makes a reservation fail, and frames may be
//!   refused.
//! - Under strict overcommit (`vm.overcommit_memory=2`) and `RLIMIT_DATA` each open chunk counts whole
//!   ([`CHUNK_PAGES`]), not only the part of it that is mapped.
//! - Each run of scattered frames is a mapping to the kernel, of which a program may have 65,530 (`vm.max_map_count`):
//!   seven eighths of these are used, then [`MapLimit`](vmalloc::PlatformFault::MapLimit) is the answer.
//! - Near `RLIMIT_AS`, mapping frames needs as many bytes of addresses as they have for the moment of the call.

mod drain;
mod error;
pub mod fork;
mod frames;
mod guard;
mod means;
mod open;
mod options;
mod os;
mod page_kinds;
mod platform;
pub mod rcu;
mod read_nofault;
mod relocate;
mod reserve;

/// The core, whole: a program needs no other dependency.
pub use vmalloc::{self, *};

pub use drain::on_drain_thread;
pub use error::ReserveError;
pub use guard::chunks::CHUNK_PAGES;
pub use means::{BatchAdvise, Guards};
pub use open::{OpenError, open, open_root, share};
pub use options::Options;
pub use os::futex::FutexLock;
pub use platform::Linux;

/// The examples of the README and of the table of Linux's names, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/linux-names.md")]
struct Documents;
