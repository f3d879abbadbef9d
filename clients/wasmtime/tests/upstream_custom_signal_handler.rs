//! wasmtime's own `tests/custom_signal_handler.rs` on our memories and stacks: see build.rs.
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/custom_signal_handler.rs"));
