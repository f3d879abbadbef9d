//! Guarded stacks.

mod decay;
mod error;
mod fork;
mod growable;
mod hold;
mod magazine;
mod pool;
mod recycle;
mod registry;
mod settings;
mod shape;
mod shard;
mod stack;
mod stacks;

pub use error::{OpenError, StackError};
pub use growable::Growable;
pub use settings::Settings;
pub use stack::Stack;
pub use stacks::Stacks;
