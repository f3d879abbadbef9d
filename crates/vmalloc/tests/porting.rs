//! The example of the porting guide does what the guide says.

#[path = "../examples/made_up_machine.rs"]
mod made_up_machine;

#[test]
fn a_vmalloc_for_a_made_up_machine() {
    made_up_machine::main().expect("all of it works");
}
