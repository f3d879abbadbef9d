//! wasmer's own `tests/externals.rs` on our memories: see build.rs.
#![allow(missing_docs, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/externals.rs"));
