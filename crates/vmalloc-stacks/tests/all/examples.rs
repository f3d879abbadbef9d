//! The examples run.

#[path = "../../examples/named_stacks.rs"]
mod named_stacks;

#[test]
fn named_stacks_example_runs() {
    named_stacks::main().expect("stacks that keep what is written");
}
