//! The area map and the lists of the core against naive models, and the rules of this repository.

mod area_map;
mod atomics;
mod blocks;
mod errors;
mod foreign;
mod in_buffer;
mod layers;
mod map_api;
mod memory;
mod modules;
mod mutants;
mod nodes;
mod page_set;
mod references;
mod scripts;
mod soundness;
mod space;
mod span;
mod stats;
mod steps;
mod walk;
