//! Tests of the program `vmalloc`, which each of them runs.

mod common;

mod driver;
mod inspect;
mod latency;
mod map;
mod replay;
mod report;
mod reproduce;
mod usage;
mod why;
