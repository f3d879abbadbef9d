//! A buffer pool of a database whose page table is virtual addresses: page `n` of the storage lies at the `n`th page of
//! one reserved area, or nowhere.
//!
//! The design is that of vmcache (Leis and others, SIGMOD 2023). The pool has one state for each page of the storage:
//!
//! ```text
//!              fix: read from the storage                 eviction, first look
//!   Evicted ───────────────────────────► Locked ◄──► Unlocked ────────────────► Marked
//!      ▲                                   ▲  fix, unfix   ▲                      │ │
//!      │        written back, dropped      │               └──────── fix ─────────┘ │
//!      └────────────────────────────────── Locked ◄─────────────────────────────────┘
//!                                             eviction, second look
//! ```
//!
//! - B1: the memory of a page is read and written only by the thread that has brought its state to `Locked`.
//! - B2: a page that is not `Evicted` is in the clock once, or is in the hands of the one thread that loads or evicts it.
//! - B3: what an evicted page held is in the storage: dirty pages are written back before their memory is dropped.
//! - B4: at most the budget and one page for each thread have memory: the budget is counted before a page is read.
//!
//! [`Way`] is all that differs between the three designs which the bench compares: how memory comes behind pages, and how
//! the memory of evicted pages goes.

pub mod page;
pub mod pool;
pub mod ways;
pub mod workload;

pub use pool::{Pool, PoolError};
pub use ways::{ByMadvise, ByMmap, OnVmalloc, Way, WayError};

/// Bytes in a page of the pool.
pub const PAGE: usize = 4096;
