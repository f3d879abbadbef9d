//! The allocator under a program that grows, alone in its process: all memory is this test's.

use crate::HEAP;
use vmalloc_harness::in_own_process;

#[test]
fn sizes_that_a_growing_program_leaves_behind_are_not_cached() {
    in_own_process(|| {
        let mut blocks: Vec<_> = (0..1000).map(|_| vec![7_u8; 40_000]).collect();
        blocks.iter_mut().for_each(|block| block.resize(100_000, 8));
        let stats = HEAP.heap().expect("it was opened").space().stats();
        assert!(stats.busy_pages > 24_000 && stats.cached_pages < 1_100, "{stats:?}");
        assert!(blocks.iter().all(|block| block[39_999] == 7 && block[40_000] == 8));
    });
}
