//! wasmer's own `tests/typed_functions.rs` on our memories: see build.rs.
#![allow(missing_docs, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/typed_functions.rs"));
