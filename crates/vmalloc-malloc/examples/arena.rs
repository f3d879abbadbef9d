//! An arena of 50,000 vectors that grow in turn. Any address in one of them tells which one it is.
//!
//! `cargo run --release -p vmalloc-malloc --example arena`
//!
//! It takes 600 MiB of memory. Before Linux 6.13 each vector takes two of the kernel's mappings, so
//! that the default limit on these allows about 28,000.

use std::error::Error;
use vmalloc_linux::{LinuxOptions, SpaceOptions, open};
use vmalloc_malloc::SpaceAllocator;
use vmalloc_malloc::allocator_api2_04::vec::Vec as GrowingVec;

/// The test that runs this example makes do with fewer.
const VECTORS: usize = if cfg!(test) { 2_000 } else { 50_000 };

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let space = open(LinuxOptions::new(), SpaceOptions::default())?;
    // An allocator of its own for each vector: its tag is the name of all areas that it makes.
    let allocator = |nth: usize| SpaceAllocator::new(&*space).tagged(nth.to_string());
    let mut vectors: Vec<_> = (0..VECTORS).map(|nth| GrowingVec::new_in(allocator(nth))).collect();

    // In turn, so that neighbours are in each other's way: a vector moves then, by its page tables.
    for round in 0..10 {
        for (nth, vector) in vectors.iter_mut().enumerate() {
            vector.extend((0..100).map(|step| nth as u64 * 1000 + round * 100 + step));
        }
    }
    for (nth, vector) in vectors.iter().enumerate() {
        let word = &vector[nth % 1000];
        let area = space.find(std::ptr::from_ref(word).addr()).ok_or("no area is there")?;
        assert_eq!(area.tag.ok_or("no tag")?, nth.to_string().as_str());
        assert_eq!(*word, (nth * 1000 + nth % 1000) as u64);
    }
    let stats = space.stats();
    println!("{} vectors in {} MiB of addresses", stats.busy_areas, stats.bytes(stats.busy_pages) >> 20);
    drop(vectors);
    assert_eq!(space.stats().busy_areas, 0);
    Ok(())
}
