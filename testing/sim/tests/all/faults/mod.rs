//! Every public operation of a space, with every step failing that it takes: pages, translations,
//! flushes, the heap.
//!
//! A new operation is a new [`Case`] in one of the modules, or a new module in [`table`]. It has a
//! scene to begin in, the call, and what frees everything afterwards; see `vmalloc_sim::harness`.

mod alloc;
mod by_hand;
mod commit;
mod direct;
mod family;
mod free;
mod keep;
mod mistakes;
mod new;
mod owned;
mod realloc;
mod scene;
mod slots;
mod subspaces;

use vmalloc_model::env;
use vmalloc_sim::harness::Case;

/// The most steps of operations in which every two are made to fail at once, for each effort.
const FEW: u64 = 8;

/// Walks every case, and prints what came of each in spaces of this configuration.
fn table(config: &str, cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let tally = case.walk();
        let pairs = if tally.total() <= FEW * env::effort() as u64 { case.walk_pairs() } else { 0 };
        println!("{config:14} {tally}; pairs {pairs}");
    }
}
