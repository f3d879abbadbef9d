//! The Linux user-space platform of vmalloc: anonymous memory in one reserved span of addresses.
//!
//! Start with [`open()`]: it reserves addresses and returns a [`SharedSpace`].
//! [`Space::zeroed_buffer`] returns owned memory.
//!
//! ```
//! use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
//!
//! let space = open(LinuxOptions::new(), SpaceOptions::default())?;
//! let mut buffer = space.zeroed_buffer(1 << 20)?;
//! buffer[0] = 1;
//! # Ok::<(), vmalloc_linux::Error>(())
//! ```
//!
#![doc = include_str!("recipes.md")]
//!
//! # Features
//! - `serde`: [`Stats`], [`NodeStats`], [`AreaInfo`] and area maps are written out and read back.
//! - `tracing`: events with the target `vmalloc`: `reservation` (bytes asked for, and got),
//!   `growth` (memory behind new pages), `purge`, `refusal` (of the system). A subscriber is called
//!   in the middle of an allocation or a purge: it must not allocate, free, resize, commit or purge
//!   in the space, nor drop what it owns there, as it would in a program whose heap stands on it.
//! - `trap-backtrace`: [reports on traps](trap_report) show where the area was freed.
//!
//! # What holds
//! - No call here allocates from the heap after [`Linux::reserve`] (nor in it, on the way to
//!   success, but with [`GuardMeans::Userfault`]), so a global allocator may stand on it.
//!   [`open()`] does, and the space and its drain do, see [`on_drain_thread`].
//! - A page of the span can be touched if and only if it is in a mapped range. Guard pages, free
//!   pages and pages freed and purged raise `SIGSEGV`, or `SIGBUS` with [`GuardMeans::Userfault`];
//!   system calls that are given their address fail with `EFAULT`. With
//!   [`SpaceOptions::trap_on_free`](vmalloc::SpaceOptions::trap_on_free) they do when the free has returned.
//! - A scattered purge costs one interrupt of the other CPUs for each 1024 ranges, not one a range.
//!   Its price is a gap: between the two calls of a batch a use-after-free reads zeros (or writes
//!   to a page that is then dropped) instead of trapping.
//! - After `fork` the child owns a copy of everything and may go on, whatever other threads were
//!   doing: with every space of [`open()`] and [`share`], and every root of [`open_root`]. Areas of
//!   threads that the child does not have are lost to the child.
//! - A space or root made by hand is for programs that do not fork while other threads use it. A
//!   child that finds a lock of it held stops with a message, see [`FutexLock`].
//! - [`Frames`] taken before a fork are shared memory. Frames that the child takes
//!   are its own. Frames that its parent took it can't give back to the supply.
//! - [`free_atomic`](vmalloc::Raw::free_atomic) and [`try_find`](vmalloc::Space::try_find) may
//!   be called in a signal handler, and no other call of a space may. They create no thread, take
//!   no memory, wait for nothing, and leave `errno` as it is.
//! - Unmapping makes pages plain again, for a call or two more, whatever was done to them: mapped
//!   to frames, protected, moved.
//!
//! # What does not
//! - `mlockall` locks the areas that are in use, and none that is allocated later, also with
//!   `MCL_FUTURE`: the kernel neither guards nor drops locked pages, and would put memory behind
//!   every address of an opened chunk. An owner who needs locked memory locks its area (`mlock`).
//!   Only with [`GuardMeans::Mprotect`], and after `MCL_CURRENT`, later allocations are locked as
//!   well, and then memory is behind all of them at once.
//! - Purging an area unlocks its pages, and those of no other. An area that is cached stays locked
//!   for its next owner. Unlocking a part of a locked range costs mappings, see below. Where it is
//!   refused (a sandbox, the limit on mappings) the area stays back with the space, without its
//!   memory (Linux 5.18), and is tried again: a purge fails with
//!   [`Locked`](vmalloc::PlatformFault::Locked) or `MapLimit` then, and [`Stats`]
//!   count such areas.
//! - Without the right to lock much (`RLIMIT_MEMLOCK`), `mlockall(MCL_FUTURE)` makes a reservation
//!   fail, and frames may be refused.
//! - Under strict overcommit (`vm.overcommit_memory=2`) and `RLIMIT_DATA` each open chunk counts
//!   whole ([`CHUNK_PAGES`]), not only the part of it that is mapped, until it is
//!   [closed](Linux::close_chunk).
//! - Each run of scattered frames is a mapping to the kernel, of which a program may have 65,530
//!   (`vm.max_map_count`): seven eighths of these are used, then
//!   [`MapLimit`](vmalloc::PlatformFault::MapLimit) is the answer.
//! - Near `RLIMIT_AS`, mapping frames needs as many bytes of addresses as they have for the moment
//!   of the call.

// The files:
//
//  open.rs          a whole allocator in one call, `open`; roots and spaces that survive forks
//  reserve.rs       options and limits ──► one reservation, and the means that this kernel has
//  options.rs       what may be asked for
//  window.rs        where the span may lie, and the place in it
//  means.rs         guards, batches
//  error.rs         the error of all calls, and that of a reservation
//  events/          what `tracing` is told
//
//  platform.rs      the `vmalloc` traits ──┬─► guard/         pages that trap: marks, mprotect
//                                          ├─► frames/        pages at several addresses
//                                          └─► page_kinds.rs  special pages made plain again
//  populate.rs      memory behind new areas at once, where the program fills them
//  shrink.rs        chunks closed again, and the end of a span given back
//  relocate.rs      pages moved to other addresses
//  ring.rs          a ring buffer: pages mapped twice
//  discard.rs       memory that reads as zero again
//  read_nofault.rs  reading addresses that may lead nowhere
//
//  trap_report/     a report on a trap: the area, and who freed it when
//  watched.rs       things that signal handlers look into
//  beacon.rs        where another process finds the spaces of this one
//  drain.rs         the thread that drains all spaces in the background
//  fork/            hooks around fork; the locks of the process and their order
//
//  os/              the system: reservation, gaps, madvise, batch, huge_pages, map_count, limits,
//                   cpu, futex, pagemap, own_descriptor, fatal; raw: calls of the kernel itself

pub mod beacon;
mod discard;
mod drain;
mod error;
mod events;
pub mod fork;
mod frames;
mod guard;
mod means;
mod open;
mod options;
mod os;
mod page_kinds;
mod page_size;
mod platform;
mod populate;
mod read_nofault;
mod relocate;
mod reserve;
mod ring;
mod shrink;
pub mod trap_report;
#[doc(hidden)]
pub mod watched;
mod window;

// The items of the core. A doc comment here would stand before that of each.
pub use vmalloc::{
    self, AllocError, Area, AreaError, AreaInfo, AreaMap, AreasIter, Buffer, Cached, CachedAreas, Code,
    CodeBuffer, Contended, Content, DirectMemory, Discard, DrainReason, DrainStatus, Evict, Extras, Fit,
    FitError, Frame, FrameRun, FrameSupply, Frames, FreeError, Geometry, Kind, MAX_NODES, MapFrames, Mapping,
    MemoryCost, NoArea, NoSpace, NodeStats, Notifier, Origin, Outline, Owned, PageRange, PageSet, PagedArea,
    Platform, PlatformError, PlatformFault, Policy, Protect, ProtectError, Protection, PurgeError, Raw,
    ReadNofault, ReadOnlyMapping, Relocate, Request, RequestError, Reservation, Resize, Segments, Share,
    Space, SpaceError, SpaceOptions, SpaceRef, Stale, Stats, Tag, Translate, Unbacked, Vmallocinfo, Zeroed,
    area_map, tenant,
};

pub use drain::on_drain_thread;
pub use error::{Error, ReserveError};
pub use guard::chunks::CHUNK_PAGES;
pub use means::GuardMeans;
pub use open::{SharedSpace, open, open_root, share};
pub use options::LinuxOptions;
#[doc(hidden)]
pub use os::fatal::say;
pub use os::futex::FutexLock;
pub use page_size::page_bytes;
pub use platform::Linux;
pub use ring::Ring;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
