//! Random worlds on Linux: threads that do at random all that an API has, forks in between, and a
//! model of what every page holds.
//!
//! ```sh
//! cargo test -p vmalloc-worlds                              # two minutes
//! cargo run --release -p vmalloc-worlds -- 3600             # an hour; VMALLOC_SEED=… repeats a
//! world
//! cargo run --release -p vmalloc-worlds -- 600 slots        # or api, stacks, heap: one kind alone
//! ```
//!
//! ```text
//!   kind.rs     the kinds of worlds, and what runs them
//!   life.rs     threads, quiet moments, forks, the end: the same for all kinds
//!   dice.rs     what is chosen at random
//!   look.rs     looks at memory from outside: what can be read, and what has memory
//!   world.rs    the whole API: random programs that share a space with random options
//!   owners/     memory by its address with what each page holds, and what becomes of errors
//!   pools/      slots, stacks, and the blocks of allocators
//! ```
//!
//! What holds, and is checked:
//! - **Content.** An area holds what its owner wrote until it ends, also when it is resized or
//!   moved, in parent and child. Frames show the same bytes at each of their addresses.
//! - **Zero** means zero, for each kind of memory that promises it: slots as well.
//! - **A flush** leaves no page of a freed area that can be read or has memory. No guard can be
//!   read, and no page that a slot or a stack has not committed.
//! - **Free slots** keep no more memory than the pool tells and its options allow.
//! - **An error** changes nothing: the content is as it was.
//! - **The end** leaves the space whole: one free range, and no area, page or frame lost.

pub mod dice;
mod kind;
mod life;
pub mod look;
mod owners;
mod pools;
mod world;

pub use kind::Kind;
pub use life::Forks;
