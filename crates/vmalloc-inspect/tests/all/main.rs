//! Tests of the reader of other processes and of core dumps.

mod common;

mod dumps;
mod garbage;
mod hostile;
mod live;

/// Plays the role of another process, if one is asked for.
#[test]
fn subject() {
    common::play();
}
