
#[cfg(test)]
mod on_vmalloc {
    use crate::prelude::*;
    use std::alloc::System;
    use vmalloc_malloc::LargeAlloc;

    /// Blocks of all sizes come from the space: polars' tests make small ones.
    #[global_allocator]
    static HEAP: LargeAlloc = LargeAlloc::new(System, 1);

    fn is_ours(series: &Series) -> bool {
        let values = series.f64().unwrap().cont_slice().unwrap();
        HEAP.heap().is_some_and(|heap| heap.contains(values.as_ptr().addr()))
    }

    #[test]
    fn series_and_their_sums_are_in_the_space() {
        let series = Series::new("a".into(), [1.0, 2.0, 3.0]);
        let sum = (&series + &series).unwrap();
        assert!(is_ours(&series) && is_ours(&sum));
        assert_eq!(sum.f64().unwrap().cont_slice().unwrap(), [2.0, 4.0, 6.0]);
    }
}
