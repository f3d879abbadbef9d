//! numpy with its data in a space of vmalloc: an environment with our Python package, and numpy's own tests in it.

mod environment;
mod suite;

pub use environment::Environment;
pub use suite::{ARITHMETIC, Outcome, REST, run};
