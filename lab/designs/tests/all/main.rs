//! Tests of the designs: programs against a reference, and traces of kernels and programs.
#![allow(missing_docs)]

mod model;
mod traces;
