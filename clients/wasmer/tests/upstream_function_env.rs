//! wasmer's own `tests/function_env.rs` on our memories: see build.rs.
#![allow(missing_docs, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/function_env.rs"));
