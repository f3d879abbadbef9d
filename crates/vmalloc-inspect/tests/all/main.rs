//! Tests of the reader of other processes and of core dumps.

mod common;

mod dumps;
mod garbage;
mod hostile;
mod live;

/// What the other process is: this test, with a role.
#[test]
fn subject() {
    common::play();
}
