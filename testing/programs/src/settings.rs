//! Random settings of a space.

use vmalloc::{MemoryCost, Policy, SpaceOptions};
use vmalloc_model::Source;

/// Returns random settings for a space on a machine with pages of so many bytes. Zeros choose the
/// default.
pub fn random_options(source: &mut dyn Source, page: usize) -> SpaceOptions {
    let mut pick = |from: &[usize]| from[source.below(from.len() as u64) as usize];
    let mut options = SpaceOptions::default();
    match pick(&[0, 1, 2, 3, 4, 5]) {
        0 => {}
        1 | 2 => options = options.unmap_on_free(),
        3 => options = options.cache_bytes(pick(&[1, 40, 300]) * page),
        4 => {
            let beside: [fn(u64) -> u64; 3] = [|in_use| in_use / 3, |in_use| (in_use / 12).max(8), |_| 1000];
            options = options.cache_bytes(64 * page).cached_beside(beside[pick(&[0, 1, 2])]);
        }
        _ => options = options.trap_on_free(true),
    }
    options = options.guard(pick(&[0, 0, 0, 1]) == 0).zero_on_free(pick(&[0, 0, 0, 1]) == 1);
    if pick(&[0, 1]) == 1 {
        // One draw for both: each slack with each cost.
        let nth = pick(&[0, 1, 2, 3, 4, 5]);
        let cost = [MemoryCost::Cheap, MemoryCost::Dear][nth % 2];
        options = options.memory_cost(cost).max_slack_percent([0, 25, 100][nth / 2]);
    }
    if pick(&[0, 1]) == 1 {
        options = options.lazy_max_pages(pick(&[1, 16, 100, 100_000]) as u64);
    }
    if pick(&[0, 1]) == 1 {
        options = options.nodes(1 + pick(&[0, 1, 2, 4]));
    }
    if pick(&[0, 0, 1]) == 1 {
        options = options.policy([Policy::Highest, Policy::Random { seed: 5 }][pick(&[0, 1])]);
    }
    options
}
