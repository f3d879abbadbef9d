//! Tests of the library that serves mmap: programs that run with it, most of them this one, with
//! one of its tests.

mod common;

mod differential;
mod files;
mod interrupted;
mod reuse;
