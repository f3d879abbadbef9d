//! Tests of the reader of other processes and of core dumps, and of the program `vmalloc`.

mod common;

mod dumps;
mod explain;
mod garbage;
mod hostile;
mod live;
mod map;
mod usage;
mod why;

const NAME: &str = "vmalloc";
const PROGRAM: &str = env!("CARGO_BIN_EXE_vmalloc");

/// Plays the role of another process, if one is asked for.
#[test]
fn subject() {
    common::play();
}
