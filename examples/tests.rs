//! The quick examples run.

#[path = "ring_stream.rs"]
mod ring_stream;

#[test]
fn ring_stream_example_runs() {
    ring_stream::main().expect("a stream through a ring");
}
