//! Failures in what is no act of a program, and what only a scene of its own brings about. Each
//! step of each act fails in [`walks`](crate::walks).

mod free;
mod mistakes;
mod new;
mod notifiers;
mod owned;
mod scene;
mod subspaces;

use vmalloc_sim::harness::Case;

/// Walks every case, and prints what came of each in spaces of these options.
fn table(options: &str, cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        println!("{options:14} {}", case.walk());
    }
}
