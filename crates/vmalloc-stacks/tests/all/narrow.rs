//! Pools where addresses are few.

use vmalloc_harness::{in_own_process, limit_addresses, narrow_addresses};
use vmalloc_stacks::{Stacks, StacksOptions};

const GIB: usize = 1 << 30;

/// Opens two pools, each with an eighth of what is left, or a 64th less of it.
fn opens_two_pools(left: usize) {
    let pools = [(); 2].map(|()| Stacks::open(&StacksOptions::new()).expect("few addresses do"));
    let spans = pools.each_ref().map(|pool| pool.stats().span_pages as usize * vmalloc_linux::page_bytes());
    // Measured on AArch64: a static program, which lies elsewhere, gets up to 2 MiB more.
    let most = left / 8 + if cfg!(target_feature = "crt-static") { 2 << 20 } else { 0 };
    assert!((left / 9..=most).contains(&spans[0]), "{} of {left} bytes", spans[0]);
    assert!((spans[0] / 8 * 6..=spans[0]).contains(&spans[1]), "{spans:?}");
    let stacks: Vec<_> = (0..1000).map(|_| pools[0].stack().expect("there are thousands")).collect();
    assert_eq!(stacks.len(), 1000);
}

#[test]
fn pools_open_in_39_bits_of_addresses() {
    in_own_process(|| opens_two_pools(narrow_addresses(39)));
}

#[test]
fn pools_open_under_a_limit_on_addresses() {
    in_own_process(|| {
        limit_addresses(256 * GIB as u64);
        opens_two_pools(255 * GIB);
    });
}
