//! Tests of the designs: programs against a reference, and traces of kernels and programs.
#![allow(missing_docs)]

mod model;
#[path = "../../examples/own_design.rs"]
mod own_design;
mod traces;

#[test]
fn the_design_of_the_example_runs_beside_all_others_and_has_60_lines() {
    let designs = own_design::compare(20);
    let own = designs.last().expect("it comes last");
    assert_eq!((own.name(), own.segments().len(), own.verify()), ("top-down", 1, Ok(())));
    assert!(include_str!("../../examples/own_design.rs").lines().count() <= 60);
}
