//! The whole family at random, against a model that knows which page shows what.
//!
//! `VMALLOC_SEED` and `VMALLOC_OPS` choose another program and its length.

use crate::mappings::model::User;
use crate::mappings::support::{Context, machines, space};
use vmalloc::Config;
use vmalloc_model::env;

/// Little, so that addresses run out and come back.
const PAGES: u64 = 1024;

fn configs() -> [Config; 4] {
    let unmapping = Config::default().unmap_on_free();
    [
        Config::default(),
        unmapping.lazy_max_pages(64).block_slots(64),
        unmapping.block_slots(64),
        Config::default().guard(false).cache_bytes(1 << 18).block_slots(128),
    ]
}

#[test]
fn random_mappings_match_the_model() {
    let (mut seed, mut total) = (0, std::collections::BTreeMap::new());
    for options in machines(PAGES) {
        for config in configs() {
            seed += 1;
            let seed = env::seed(seed);
            let _context = Context((seed, &options, &config));
            let space = space(options.clone(), config);
            let mut user = User::new(space, seed);
            for op in 0..env::ops(1500) {
                user.step();
                if op % 64 == 0 {
                    user.check();
                }
            }
            user.done().into_iter().for_each(|(what, times)| *total.entry(what).or_insert(0) += times);
            user.end();
        }
    }
    assert!(total.values().all(|&times| times > 0) || env::ops(1500) < 1500, "{total:?}");
}
