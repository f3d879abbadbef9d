//! wasmtime's own `tests/host_segfault.rs` on our memories and stacks: see build.rs.
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/host_segfault.rs"));
