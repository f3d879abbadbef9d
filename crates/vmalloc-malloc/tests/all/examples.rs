//! The example runs.

#[path = "../../examples/arena.rs"]
mod arena;

#[test]
fn arena_example_runs() {
    arena::main().expect("an arena");
}
