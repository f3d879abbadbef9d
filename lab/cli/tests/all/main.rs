//! Tests of the program `vmalloc-lab`, which each of them runs.

#[path = "../../../../crates/vmalloc-inspect/tests/all/common/program.rs"]
mod common;

mod driver;
mod latency;
mod replay;
mod report;
mod reproduce;
mod usage;

const NAME: &str = "vmalloc-lab";
const PROGRAM: &str = env!("CARGO_BIN_EXE_vmalloc-lab");
