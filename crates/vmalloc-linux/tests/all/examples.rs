//! The examples run.

#[path = "../../examples/arena.rs"]
mod arena;
#[path = "../../examples/ring_stream.rs"]
mod ring_stream;

#[test]
fn arena_example_runs() {
    arena::main().expect("an arena");
}

#[test]
fn ring_stream_example_runs() {
    ring_stream::main().expect("a stream through a ring");
}
