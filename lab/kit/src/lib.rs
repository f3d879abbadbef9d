//! What the benches and the designs of the lab share. It reads no traces, so a bench is built
//! without what unpacks and draws them.

pub mod clock;
pub mod cpu;
pub mod hooks;
pub mod null;
pub mod rng;
pub mod stats;
pub mod table;
pub mod times;
pub mod workers;
