//! Tests of the program `vmalloc-lab`, which each of them runs.

mod common;

mod driver;
mod latency;
mod replay;
mod report;
mod reproduce;
mod usage;
