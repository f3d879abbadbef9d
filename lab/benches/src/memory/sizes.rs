//! Areas of all sizes: allocated, touched, freed; and arrays that come and go.

use super::Row;
use crate::buffers::{Buffers, PAGE_BYTES, Visitor, each, touch};
use crate::rounds::{Limits, medians};

/// Pages of the areas. The first ones are around 256 pages, from which on an area is in no node.
const PAGES: [usize; 9] = [3, 16, 100, 255, 256, 257, 1024, 4096, 16_384];

/// Measures the group.
pub fn run(limits: &Limits) -> Vec<Row> {
    PAGES.into_iter().flat_map(|pages| bounce_all(pages, limits)).collect()
}

/// Every allocator: allocate so many pages, write one byte a page, free.
fn bounce_all(pages: usize, limits: &Limits) -> Vec<Row> {
    let mut enter = Enter { bytes: pages * PAGE_BYTES, names: Vec::new(), players: Vec::new() };
    each(&mut enter);
    let load = format!("{} KiB", (pages * PAGE_BYTES) >> 10);
    let medians = medians(&mut enter.players, limits);
    let row = |(name, ns): (&'static str, f64)| Row::new(load.clone(), name, ns / 1e3, "µs");
    enter.names.into_iter().zip(medians).map(row).collect()
}

struct Enter {
    bytes: usize,
    names: Vec<&'static str>,
    players: Vec<Box<dyn FnMut(usize)>>,
}

impl Visitor for Enter {
    fn visit<B: Buffers + 'static>(&mut self) {
        let (mut buffers, bytes) = (B::build(), self.bytes);
        self.names.push(B::NAME);
        self.players.push(Box::new(move |iterations| bounce(&mut buffers, bytes, iterations)));
    }
}

fn bounce<B: Buffers>(buffers: &mut B, bytes: usize, iterations: usize) {
    for _ in 0..iterations {
        let buffer = buffers.allocate(bytes);
        // SAFETY: the bytes are this loop's own until they are freed, which happens once.
        unsafe {
            touch(buffer, bytes);
            buffers.free(buffer, bytes);
        }
    }
}
