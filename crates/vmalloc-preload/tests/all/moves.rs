//! Blocks whose pages move while other threads map memory of their own.

use crate::common::{done, program, run};

/// It found mappings of others inside of the reservation, on Linux 6.1. There a refused mremap(2)
/// has unmapped its target. Before the library maps it again, the kernel gives its addresses away.
#[test]
fn mappings_of_other_threads_stay_outside_of_the_reservation_while_pages_move() {
    let seconds = vmalloc_harness::env::seconds(2).to_string();
    let reserved = (64_u64 << 30).to_string();
    for settings in [&[][..], &[("VMALLOC_THREAD", "1")]] {
        let settings = [settings, &[("VMALLOC_RESERVE", "64G")]].concat();
        let output = run(&program("beside.c"), &[&seconds, &reserved], &settings);
        done(&output);
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
}
