//! Guarded stacks for coroutines, fibers and threads: cheap to make and to drop, by the million.
//!
//! ```
//! use vmalloc_stacks::{Stacks, StacksOptions};
//!
//! let stacks = Stacks::open(&StacksOptions::new().stack_bytes(64 << 10).name("requests"))?;
//! let stack = stacks.stack()?;
//! // A context switch would start at the top. Here a word is pushed by hand.
//! let word = (stack.top() - size_of::<usize>()) as *mut usize;
//! // SAFETY: inside of the stack, which nothing else uses.
//! unsafe { word.write(42) };
//! // The next stack on this CPU is that one again, and needs no page fault.
//! drop(stack);
//! assert_eq!(stacks.stack()?.len(), 64 << 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guards
//! A pool has a span of addresses of its own, which it shares with nothing else. The first page of
//! the span is never mapped, and every area has its guard page behind it:
//!
//! ```text
//!   span                                          free addresses
//!   │ first page │ stack          │ guard │ stack          │ guard │      │ stack     │ guard │ …
//!   │  of span   │bottom       top│       │bottom       top│       │      │           │       │
//!   └── traps ───┘                └ traps ┘                └ traps ┘ traps
//! ```
//!
//! So the page below *every* stack traps. By induction from the bottom of the span, that page is
//! - the first page of the span, or
//! - the guard page of the area below, for no area of this span is made without one, or
//! - part of free addresses, or of an area that was freed and unmapped, or
//! - the guard page of an area that is cached: its guard stays where it is.
//!
//! The page at the top is the stack's own guard. An overflow that steps over the guard page in one
//! frame is not caught by any guard page. Rust touches each page of a large frame in turn; in C
//! that takes `-fstack-clash-protection`.
//!
//! # Costs
//! `cargo run --release -p vmalloc-bench --features buffers --bin memory stacks`, in the folder
//! `lab`, measures these, beside mmap(2) with a guard and beside the stacks of `corosensei`, in CPU
//! time:
//!
//! | a stack of 64 KiB or 1 MiB, made, touched, dropped | ns |
//! |---|---|
//! | by one thread, or by each of two | 50 |
//! | of another size than the pool's | 50 |
//! | 16 pages touched, so that each drop finds it deep | 100 |
//! | 500 made at once, then dropped | 100 to 110 |
//! | mmap(2) with a guard page, munmap(2) | 9,700 to 12,300 |
//! | `corosensei::stack::DefaultStack` | 11,300 to 13,900 |
//!
//! A stack that is made costs nothing but addresses until it is touched. A million stacks take as
//! many mappings of the kernel as one: `cargo run --release -p vmalloc-stacks --example many` made
//! them in 38 mappings of the program, 34 of which it had before. Ten million of addresses alone
//! (`many 10000000 64 reserve`) took as many. On kernels before 6.13, which have no guard marks,
//! each stack takes two.
//!
//! A stack for which none is cached costs about 6 µs: its guard marks are taken away, and its first
//! page is a page fault. A burst that drops more stacks than
//! [`warm_bytes`](StacksOptions::warm_bytes) allows pays that again, and so may want more of it.
//!
//! # Memory of dropped stacks
//! ```text
//!   drop ──► was it used below the kept part? ── no ──► warm: 64 for each CPU ──► the space's cache
//!                          │ yes                            ▲ trimmed
//!                          └──► deep: 64 for each CPU ──────┘ all of them by one system call
//!   stack() ◄── deep ◄── warm ◄── the space's cache ◄── new addresses
//! ```
//!
//! - The top [`keep_bytes`](StacksOptions::keep_bytes) of a dropped stack stay warm. Below that, memory
//!   is given back.
//! - A drop makes no system call to find out how deep a stack was used. It looks at two cache lines
//!   of the *sentinel*, the page below the kept part, which reads as zero until it is used.
//! - Stacks that were used deeper are reused first, as they are. Once 64 of them wait on a CPU, one
//!   call trims them all: the other CPUs are interrupted once.
//! - Once a second the drain thread of spaces trims every cached stack, also those whose sentinel
//!   was stepped over. That is the bound: a stack which waits keeps more than its part for a second
//!   at most.
//! - All cached stacks of a pool together keep [`warm_bytes`](StacksOptions::warm_bytes), and 64 for each
//!   CPU. To the space's cache each stack counts by what it keeps. It lets them go by their age. Of
//!   stacks above 1 MiB, 1,024 are cached.
//!
//! # Threads and forks
//! Any thread may make stacks, and any may drop them. What CPUs share is not touched on the common
//! way. In the child of a fork, stacks and pools may be used and dropped as in its parent. Stacks
//! of threads that the child does not have stay in use there.
//!
//! Dropping a stack may trim or purge, and needs some 40 KiB of the stack that it runs on then.
//!
//! # Overflows
//! [`report_overflows`] writes one line for an overflow: the name of the stack and of its pool, the
//! bounds, the address. Then the program ends, or goes on to the handler that was there before.
//!
//! # Libraries of coroutines
//! - With the feature `corosensei`, [`Stack`] and [`Growable`] are stacks of that crate.
//! - `generator` (0.8), and `may` on it, map their stacks themselves. A patch of 80 lines in
//!   `clients/coroutines` gives them these.
//!
//! # Whose ideas these are
//! Magazines for each CPU are Bonwick's (2001). Pools of guarded stacks that keep their top part
//! warm are those of wasm runtimes: wasmtime's pooling allocator has `async_stack_keep_resident`.
//! Guard pages without mappings are `MADV_GUARD_INSTALL` of Linux 6.13. A word at the end of a
//! stack that tells how deep it was used is as old as embedded systems. Here the kernel's page of
//! zeros is that word, so it costs no memory.

#[cfg(feature = "corosensei")]
mod coroutines;
mod error;
mod growable;
mod magazine;
mod options;
mod overflow;
mod pool;
mod recycle;
mod request;
mod shape;
mod shard;
mod stack;
mod stacks;
mod sync;

pub use error::StackError;
pub use growable::{Growable, Grower};
pub use options::StacksOptions;
pub use overflow::{AltStack, AltStackError, Overflow, report_overflows, report_overflows_to};
pub use request::StackRequest;
pub use stack::Stack;
pub use stacks::Stacks;
pub use vmalloc_linux::LinuxOptions;

/// The example of the README, compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
