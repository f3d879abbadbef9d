//! The example of the porting guide does what the guide says.

#[path = "../../examples/made_up_machine.rs"]
mod made_up_machine;

#[test]
fn made_up_machine_example_runs() {
    made_up_machine::main().expect("all of it works");
}
