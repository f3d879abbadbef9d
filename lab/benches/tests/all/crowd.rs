//! The kernel mappings that short mappings take: in a process of its own, in which nothing else is
//! mapped.

use vmalloc_bench::mappings::crowd::{self, RUNS};
use vmalloc_harness::in_own_process;

/// Mappings that the heap and the thread that drains may take besides.
const SOME: usize = 20;

#[test]
fn runs_take_a_mapping_each_consecutive_frames_none_and_all_of_them_end() {
    in_own_process(|| {
        for runs in RUNS {
            let row = crowd::run(500, runs);
            assert!(row.live == 500 && row.refusal.is_none(), "{row:?}");
            let expected = if runs == 1 { 0 } else { 500 * runs };
            assert!((expected..expected + SOME).contains(&row.kernel), "{row:?}");
            assert!(row.left < SOME as isize, "{row:?}");
        }
    });
}
