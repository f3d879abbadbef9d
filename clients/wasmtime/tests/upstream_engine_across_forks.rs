//! wasmtime's own `tests/engine_across_forks.rs` on our memories and stacks: see build.rs.
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/engine_across_forks.rs"));
