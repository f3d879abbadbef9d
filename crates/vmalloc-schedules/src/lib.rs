//! placeholder
#![cfg(shuttle)]

mod explore;
mod lock;
mod machine;
pub mod scenes;
mod world;

pub use explore::{Failure, Plan, explore, tell};
pub use lock::Lock;
pub use machine::{Flushes, Machine};
pub use vmalloc::sync::{Grain, Mutant, point};
pub use world::{World, here};
