//! The area map against a naive model, and the rules of this repository.

mod architecture;
mod area_map;
mod atomics;
mod in_buffer;
mod layers;
mod map_api;
mod memory;
mod modules;
mod mutants;
mod page_set;
mod references;
mod scripts;
mod soundness;
mod steps;
