//! Workloads that measure vmalloc beside its peers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`ranges`] | the one trait every range allocator is measured through |
//! | [`workload`] | the table of workloads: what is built, what is measured |
//! | [`stage`] | one allocator in the state that a workload asks for, and the measured loops |
//! | [`adapter`] | ours, the crates.io peers and two baselines behind that trait |
//! | [`contest`] | several allocators through one workload, round by round; the tail of single pairs |
//! | [`threads`] | one space and many threads: pairs a second |
//! | [`policy`] | pages, calls and addresses that the caching policy takes, for twelve loads |
//! | [`c_calls`] | calls of the C library beside those of Rust |
//! | [`mod@line`] | the time that a cache line takes from one core to another |
//! | [`callgrind`] | counting windows of instructions inside one run |
//! | `buffers` | large buffers: allocate, touch, free |
//! | `by_hand` | the kernel's calls, as programs make them by hand |
//! | `memory` | big areas, pools of pages, slots, stacks, frees that trap, pages that are mapped |
//! | [`rounds`], [`scene`] | windows of those that are compared, in turn; what many CPUs do with one space |
//! | [`heap`], [`output`] | the small tools |
//!
//! The binaries `ranges`, `counts`, `threads`, `memory` and `buffers` only parse arguments and
//! print.

pub mod adapter;
#[cfg(feature = "buffers")]
pub mod buffers;
#[cfg(feature = "buffers")]
pub mod by_hand;
pub mod c_calls;
pub mod callgrind;
pub mod contest;
pub mod heap;
pub mod line;
#[cfg(feature = "buffers")]
pub mod memory;
pub mod output;
pub mod policy;
pub mod ranges;
pub mod rounds;
pub mod scene;
pub mod stage;
pub mod threads;
pub mod workload;
