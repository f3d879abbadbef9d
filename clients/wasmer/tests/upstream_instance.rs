//! wasmer's own `tests/instance.rs` on our memories: see build.rs.
#![allow(missing_docs, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/instance.rs"));
