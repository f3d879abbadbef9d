//! Guarded stacks.

#[cfg(feature = "corosensei")]
mod coroutines;
mod decay;
mod error;
mod fork;
mod growable;
mod hold;
mod magazine;
mod overflow;
mod pool;
mod recycle;
mod registry;
mod settings;
mod shape;
mod shard;
mod stack;
mod stacks;

pub use error::{OpenError, StackError};
pub use growable::{Growable, Grower};
pub use overflow::{AltStack, AltStackError, Overflow, report_overflows, report_overflows_to};
pub use settings::Settings;
pub use stack::Stack;
pub use stacks::Stacks;
