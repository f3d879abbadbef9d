//! wasmtime on vmalloc: linear memories in slots, and the stacks of its async calls in a pool of guarded stacks.
//!
//! ```
//! let mut config = wasmtime::Config::new();
//! vmalloc_client_wasmtime::install(&mut config)?;
//! let engine = wasmtime::Engine::new(&config)?;
//! # drop(engine);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod memories;
mod stacks;

pub use memories::{Memories, Pool};
pub use stacks::Stacks;

use std::sync::{Arc, LazyLock};
use vmalloc_stacks::StackError;
use wasmtime::{Config, InstanceAllocationStrategy};

/// The default `async_stack_size`.
const STACK_BYTES: usize = 2 << 20;

/// Makes a config take memories and async stacks from vmalloc. All configs of the program share both.
///
/// # Errors
/// [`StackError`]: there were no addresses, when this was first called.
pub fn install(config: &mut Config) -> Result<(), &'static StackError> {
    static MAKERS: LazyLock<Result<(Arc<Memories>, Arc<Stacks>), StackError>> =
        LazyLock::new(|| Ok((Arc::new(Memories::open()?), Arc::new(Stacks::open(STACK_BYTES)?))));
    let (memories, stacks) = MAKERS.as_ref()?;
    // The pooling allocator asks no host for memory, and the images of wasmtime's own memories are mappings of files.
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand).memory_init_cow(false);
    config.with_host_memory(memories.clone()).with_host_stack(stacks.clone());
    Ok(())
}
