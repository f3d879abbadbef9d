//! A simulated MMU: a page table plus one TLB per CPU that keeps stale entries on purpose, and
//! reports any access, reuse or aliasing that real hardware would get wrong. Deterministic.
//!
//! On a real machine a missing flush is seen once in a million runs, as damage somewhere else. Here
//! the hardware is as hostile as it may be, every time. No TLB forgets anything that it was not
//! told to forget. The frame recycled last is handed out first. An access goes through the TLB of
//! the CPU that makes it.
//!
//! ```text
//!            access by CPU 1                                    frames: content, owner
//!                 │                                            ┌───┬───┬───┬───┬───┐
//!                 ▼                                            │ 0 │ 1 │ 2 │ 3 │ 4 │
//!   TLB 0 … TLB 1: page ─► frame, epoch ──hit────────────────► └───┴───┴───┴───┴───┘
//!                 │ miss                                         ▲   owned by its page,
//!                 ▼                            fills the TLB     │   in limbo (unmapped, not flushed),
//!       page table: page ─► frame, epoch ────────────────────────┘   a user's, or in the supply
//!                 │ no entry
//!                 ▼
//!            Fault::NotMapped
//! ```
//!
//! [`Sim`] is the platform; [`Options`] make one. What it finds is a [`Fault`]: recorded, returned
//! where there is a caller to return it to, and by default a panic at once. [`Point`]s fail on
//! request, the heap too ([`heap`]). How good the simulator is at its work is tested with protocols
//! that are wrong on purpose: an [`InjectedBug`] is a caller that forgets flushes, or a machine
//! that does.
//!
//! ```
//! use vmalloc::{PageRange, Request, Space, SpaceOptions};
//! use vmalloc_sim::{Fault, Options, TlbVisibility};
//!
//! let sim = Options::new(PageRange::new(0x100, 0x200).unwrap()).cpus(2).build();
//! let space = Space::new(sim, SpaceOptions::default().unmap_on_free())?;
//! let addr = space.raw().alloc(&Request::new(4096))?;
//! let (sim, page) = (space.platform(), (addr >> 12) as u64);
//! sim.write(0, page, 42)?;
//! assert_eq!(sim.read(1, page), Ok(42));
//! assert_eq!(sim.read(1, page + 1), Err(Fault::NotMapped { cpu: 1, page: page + 1 }), "the guard");
//! // SAFETY: nothing uses the area any more.
//! unsafe { space.raw().free(addr)? };
//! space.purge()?;
//! assert_eq!(sim.look(1, page), TlbVisibility::Nothing);
//! assert_eq!(sim.check_end(), []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Frames can also be taken, mapped at any number of pages, discarded and given back
//! ([`FrameSupply`](vmalloc::FrameSupply)); what may be done with a page can be changed
//! ([`Protect`](vmalloc::Protect)); and anything can be [read](vmalloc::ReadNofault) at. Machines
//! differ in what they have of this: see [`Options`]. Memory is counted in words: a page has one.
//!
//! Page tables that somebody else's code writes are run on an MMU of their own: `clients/stale-tlb`.
//!
//! # What is not simulated
//! Page tables as trees of frames, huge pages as single translations, accesses between two steps of
//! one platform call (a call is atomic here), and time.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod counts;
mod cpu;
mod direct;
mod fault;
pub mod harness;
pub mod heap;
mod machine;
mod memory;
mod options;
mod page_set;
mod plan;
mod platform;
mod sim;
mod tlb;

pub use counts::Counts;
pub use direct::Direct;
pub use fault::{Access, Fault};
pub use machine::TlbVisibility;
pub use options::{Discard, InjectedBug, OnViolation, Options};
pub use plan::{Due, Injected, Plan, Point};
pub use sim::Sim;
