//! Tests of the preload library: programs in C and C++ that run with it.

// Its tests: those of the library itself can't be built, whose symbols are malloc's.
#[allow(dead_code, unused_imports)]
#[path = "../../src/base/mod.rs"]
mod base;
mod common;

mod entries;
mod forks;
mod mallocs;
mod misuse;
mod moves;
mod neighbours;
mod settings;
mod stacks;
