//! `libvmalloc_malloc.so`: a malloc for any program, by `LD_PRELOAD`, that takes large sizes from a
//! vmalloc space and leaves the rest to glibc.
//!
//! ```text
//!   program ──► entries.rs ──┬── size below the threshold, pointer outside the reservation ──► glibc.rs
//!                            └── large.rs ──► start.rs (is there a heap?) ──► LargeHeap ──► Space
//!
//!   own_stack.rs  a stack for the start, which takes more than a thread may have
//!   settings.rs   VMALLOC_… variables, read by the constructor from what the kernel passed
//!   altered.rs    blocks with attributes by madvise(2), which end with the block
//!   limits.rs     limits that the program sets itself, and memory that it locks
//!   stats.rs      the line of counts at the exit
//!   fork.rs       the gate that keeps threads out meanwhile, and the lock of the records
//!   base/         the heap of this library's own records, lines on stderr, errno
//! ```
//!
//! # Invariants
//! - **P1** A pointer belongs to the heap if and only if it lies in the one reservation, whose
//!   bounds are written once, and drawn in before its end is unmapped. One comparison tells.
//! - **P2** No call waits for the start of the heap. Until it is ready, and inside the call that
//!   makes it ready, glibc serves every size.
//! - **P3** Records of the space come from private mappings, never from the heap or from glibc. So
//!   no call comes back into the library, and no flag has to tell that.
//! - **P4** While a thread forks, no other waits for the heap: all are served by glibc, and what
//!   they free is freed later. So a thread that holds a lock of the C library or of the program
//!   goes on.
//! - **P5** Where the heap can't serve a request, glibc is asked before the program is refused, and
//!   the heap where glibc can't.
//! - **P6** A call that succeeds leaves `errno` as it was, but for one that glibc has refused
//!   first.
//!
//! `operator new` and `delete` are not among the symbols: those of the C++ library call malloc and
//! free, throw as the standard says, and heed operators that the program replaces.

mod altered;
mod base;
mod entries;
mod fork;
mod glibc;
mod large;
mod limits;
mod own_stack;
mod settings;
mod start;
mod stats;

/// The heap of the space's lists and tables.
#[global_allocator]
static RECORDS: base::Records = base::Records::new();
