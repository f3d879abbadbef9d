//! vmalloc as a C library, `libvmalloc`: spaces, areas, mappings, stacks, slots, sub-spaces and the
//! address map, behind opaque handles, with the prefix `vmalloc_`.
//!
//! The header is `include/vmalloc.h`. `cargo xtask header --bless` makes it of this source, and
//! `make install PREFIX=DIR` installs library, header and packages. So the comments here speak of
//! pointers and `errno`, and are those of the header.
//!
//! # The plan
//! - **Handles.** Each type of Rust that owns something is an opaque handle, which one call makes
//!   and one call ends. A handle holds what it stands on by an `Arc`: a space that is closed while
//!   mappings or slots of it are left lives on behind them. Sub-spaces are `vmalloc_space` too, so
//!   every family works on both. Stacks alone are structs of the caller's, for a heap allocation
//!   would cost as much as the stack.
//! - **Errors.** A call that returns a pointer returns `NULL` and sets `errno`. Any other returns 0
//!   or a negative `errno`. The last parameter, which may be `NULL`, receives a `vmalloc_error`:
//!   the code, its family, and the figures in bytes. A failed call changes nothing else. The
//!   variable `errno` is kept by the two calls for signal handlers alone: the C library may change
//!   it in calls that succeed, and so may calls of the system that are tried and not needed.
//! - **Versions.** Structs of options and of statistics begin with their size. Bytes that the
//!   library does not know have to be zero (`E2BIG` otherwise). Bytes that the caller does not know
//!   are defaults. Zero is the default of every field. `vmalloc_error` has a fixed size with room
//!   to grow. `include/vmalloc.abi` has every declaration, and a test compares the header with it.
//! - **Threads.** All handles may be used by all threads, but for `vmalloc_map`, which has no lock,
//!   and for the call that ends a handle, which is the last one.
//! - **Forks.** Spaces, roots and stacks have hooks around `fork`: parent and child may go on. The
//!   layer itself has no lock that a fork could find held: names are in a list that only grows
//!   (`names.rs`).
//! - **Panics.** None crosses: every function is `extern "C"`, so a panic prints its message and
//!   aborts. So does an exception that a callback throws.
//! - **Conditions.** The conditions of the unsafe functions of Rust stand in the header, function
//!   by function. What holds for every call stands at its top, see [`conditions`].
//!
//! # What C gets of each family of the Rust API
//! | Rust | C | left out, and why |
//! |---|---|---|
//! | `open`, `LinuxOptions`, `SpaceOptions` | `vmalloc_open` | |
//! | `Raw::alloc` … `free`, `free_altered`, `free_atomic`, `realloc`, `grow_in_place` | `vmalloc_alloc` … `vmalloc_shrink_in_place` | batches: Rust has none |
//! | `reserve`, `alloc_exec`, `protect`, `remove` | of that name | |
//! | `find`, `try_find`, `usable_size`, `areas_from`, `vmallocinfo` | `vmalloc_find` …, by callback | |
//! | `segments`, `cached`, `node_stats` | `vmalloc_get_node_stats` | the walks over segments: for tools in Rust |
//! | `stats`, `purge`, `flush`, `decay`, `drain`, `shrink`, `verify` | of that name | |
//! | `read`, `physical_page` | `vmalloc_read`, `vmalloc_physical_page` | |
//! | `commit`, `decommit`, `discard`, `reset`; `PagedArea` | by ranges | the owned type: the caller counts |
//! | `Frames`, `Mapping`, `ReadOnlyMapping`, `ShortMapping` | `vmalloc_frames`, `vmalloc_mapping` | |
//! | `Raw::map`, `map_shared`, `map_pages`; `vmalloc_percpu` | of that name; `vmalloc_alloc_congruent` | `map_device`, `map_runs`: for kernels |
//! | `ShortMaps::map`, `unmap` | `vmalloc_map_short`, `vmalloc_unmap_short` | `reserve`: for kernels |
//! | `Notifier` | `vmalloc_notifier`, a callback | |
//! | `Root`, `Subspace` | `vmalloc_root`, and a `vmalloc_space` | protected sub-spaces and nested roots: each is another type of space |
//! | `Slots`, `Slot` | `vmalloc_slots`, `vmalloc_slot` | |
//! | `Stacks`, `Stack`, `Growable`, `AltStack` | of that name | `report_overflows_to`: its function takes a type of Rust |
//! | `AreaMap`, `Fit` | `vmalloc_map` | quarantine: its token can't be kept honest in C; serde |
//! | `trap_report` | `vmalloc_watch` | |
//! | `Buffer`, `Area`, `CodeBuffer` | | owners: C has none |
//! | `SpaceAllocator` with the heap | `vmalloc_alloc_or_heap` | |
//! | `Space::new`, `Platform` and its powers | | a platform is written in Rust |
//! | `quiesce`, `resume` | | the hooks around `fork` call them |
#![allow(non_camel_case_types)]

#[macro_use]
mod answer;
mod areas;
mod code;
mod commit;
pub mod conditions;
mod error;
mod exec;
mod find;
mod frame_pages;
mod frames;
mod growable;
mod input;
mod map;
mod map_edit;
mod mapping;
mod memory;
mod names;
mod notifier;
mod options;
mod percpu;
mod purge;
mod raw_map;
mod resize;
mod root;
mod slots;
mod space;
mod stacks;
mod stats;
mod tsan;
mod version;
mod walk;
mod watch;

pub use areas::*;
pub use code::*;
pub use commit::*;
pub use error::vmalloc_error;
pub use exec::*;
pub use find::*;
pub use frame_pages::*;
pub use frames::*;
pub use growable::*;
pub use map::*;
pub use map_edit::*;
pub use mapping::*;
pub use memory::*;
pub use notifier::*;
pub use options::*;
pub use percpu::*;
pub use purge::*;
pub use raw_map::*;
pub use resize::*;
pub use root::*;
pub use slots::*;
pub use space::*;
pub use stacks::*;
pub use stats::*;
pub use version::*;
pub use walk::*;
pub use watch::*;
