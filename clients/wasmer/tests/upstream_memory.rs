//! wasmer's own `tests/memory.rs` on our memories: see build.rs.
#![allow(missing_docs, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/memory.rs"));
