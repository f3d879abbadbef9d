//! Mappings of frames and the rest of the family, on simulated machines of every kind: what is
//! mapped shows what it should, what is not faults, nothing is handed out while a CPU remembers it,
//! frames come back when nothing leads to them, and what is refused changes nothing.

mod everything;
mod exec;
mod info;
mod model;
mod percpu;
mod ram;
mod random;
mod read;
mod realloc;
mod refusals;
mod refused_frees;
mod replacing;
mod requests;
mod sparse;
mod support;
mod user;
mod vmap;
