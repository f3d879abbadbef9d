//! wasmer on vmalloc: linear memories in slots, by `Tunables`.
//!
//! ```
//! use vmalloc_client_wasmer::SlotTunables;
//! use wasmer::sys::{EngineBuilder, Singlepass};
//!
//! let mut engine = EngineBuilder::new(Singlepass::default()).engine();
//! engine.set_tunables(SlotTunables::open()?);
//! let store = wasmer::Store::new(engine);
//! # drop(store);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod memory;
mod tunables;

pub use memory::Pool;
pub use tunables::{Pools, SlotTunables};

use std::sync::{Arc, LazyLock};
use wasmer::Store;
use wasmer::sys::{EngineBuilder, Singlepass};

/// Returns a store with memories in slots. All such stores of the program share the slots.
///
/// # Panics
/// Without addresses.
pub fn store() -> Store {
    static POOLS: LazyLock<Arc<Pools>> =
        LazyLock::new(|| Arc::new(Pools::open().expect("there are addresses")));
    let mut engine = EngineBuilder::new(Singlepass::default()).engine();
    engine.set_tunables(SlotTunables::on(POOLS.clone()));
    Store::new(engine)
}
