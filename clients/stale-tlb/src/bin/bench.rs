//! Map and unmap of the crate on the simulated machine: what a run of it costs. There is no own way to compare with.

use stale_tlb::{Flush, Kernel};
use std::time::Instant;

const PAGES: u64 = 1000;
const ROUNDS: usize = 9;

fn main() {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    println!(
        "map, use on two CPUs, unmap, shoot down: {:.2} µs a page, median of {ROUNDS}",
        rounds[ROUNDS / 2]
    );
    println!("no bar: a missing flush is found by one test");
}

/// Returns µs a page.
fn round() -> f64 {
    let mut kernel = Kernel::boot(2, 64);
    let start = Instant::now();
    for page in 0..PAGES {
        let addr = 0x4000_0000_0000 + (page << 12);
        kernel.map(addr).expect("frames");
        kernel.mmu().write(0, addr, page).expect("a page");
        kernel.mmu().read(1, addr).expect("a page");
        kernel.unmap(0, addr, Flush::Everywhere).expect("a page").expect("nothing is stale");
    }
    start.elapsed().as_secs_f64() * 1e6 / PAGES as f64
}
