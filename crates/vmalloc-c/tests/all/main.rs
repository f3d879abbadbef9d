//! Tests of the C library: programs in C and C++ that use it, its interface, its documents.

mod common;

mod abi;
mod documents;
mod examples;
mod families;
mod panics;
