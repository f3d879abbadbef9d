//! `libvmalloc_mmap.so`: an experiment. Anonymous private memory of any program, by `LD_PRELOAD`,
//! at addresses of an [`AreaMap`](vmalloc::AreaMap), with the semantics of the kernel's mmap(2).
//!
//! ```text
//!   program ──► entries.rs ──┬── no page of the call is in the reservation ──► kernel.rs
//!                            │
//!                            ├── mapping.rs   mmap, munmap     ┐               claims.rs: which pages
//!                            ├── moving.rs    mremap           ├──► state.rs ─► of the reservation are
//!                            └── change.rs    mprotect, madvise┘       │       the program's; changes.rs:
//!                                                                     │       those made during a fork
//!                                                                     └──────► kept.rs: areas for reuse
//!   settings.rs  VMALLOC_MMAP_… variables       fork.rs      what holds over a fork
//!   preload-base a crate: the heap of the records, lines on stderr, errno
//! ```
//!
//! One reservation is mapped without access. An area in it is handed out by mapping over it what
//! the program asked for, with its own words. The kernel's state of those pages is then that of any
//! other mapping, so calls on them are the kernel's. Two calls differ:
//!
//! - An unmap maps the reservation again, in one call, in place of munmap(2). No other mapping can
//!   ever come to lie in a hole.
//! - A call on a range with holes is made on the pages that are the program's, and the answer for
//!   the holes is the kernel's answer about an address at which nothing is ever mapped.
//!
//! # Invariants
//! - **I1** A free page of the map is mapped without access and without memory. Only [`state`]
//!   maps over it, and it claims the page first.
//! - **I2** A busy page is the kernel's business: the map says nothing of its access or content. A
//!   step that fails leaves pages busy rather than free.
//! - **I3** Retired areas are those of [`kept`]: mapped as at the first day, and all zero.
//! - **I4** An area is kept only if it was unmapped as a whole, and nothing was done to it that
//!   outlasts its content: it is *untouched* in the sense of [`state`].
//! - **I5** The lock is held with all signals blocked, so that a handler may call mmap(2) and its
//!   relatives at any time, as it may without this library.
//! - **I6** Records come from mappings of the kernel's own, never from the reservation. Only a
//!   thread that has the lock allocates or frees one, and none while a thread forks.
//! - **I7** A call that succeeds leaves `errno` as it was.
//! - **I8** No lock is held over a fork. While a thread forks nothing changes but the kernel's
//!   state, the list of [`changes`], and counts. I1 to I4 hold of the map with these changes made.

mod change;
mod changes;
mod claims;
mod entries;
mod fork;
mod kept;
mod kernel;
mod mapping;
mod moving;
mod pages;
mod settings;
mod state;

/// The heap of the map's records (I6).
#[global_allocator]
static RECORDS: vmalloc_preload_base::Records = vmalloc_preload_base::Records::new();
