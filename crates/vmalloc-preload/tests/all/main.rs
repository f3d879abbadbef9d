//! Tests of the preload library: programs in C and C++ that run with it.

mod common;

mod entries;
mod forks;
mod misuse;
mod moves;
mod neighbours;
mod settings;
mod stacks;
