//! Many stacks: few mappings, and nothing is lost.

use crate::common::*;
use vmalloc_harness::not_run;
use vmalloc_stacks::Stacks;

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Returns whether this kernel has guard marks: without them each stack is two mappings.
fn has_marks() -> bool {
    let options = vmalloc_linux::LinuxOptions::new().max_bytes(16 << 20).frame_bytes(0);
    let linux = vmalloc_linux::Linux::reserve(options, &vmalloc_linux::SpaceOptions::default()).unwrap();
    linux.guard_means() == vmalloc_linux::GuardMeans::PteMarkers
}

#[test]
fn forty_thousand_live_stacks_take_few_mappings() {
    in_own_process(|| {
        if !has_marks() {
            return not_run("forty_thousand_live_stacks_take_few_mappings", "this kernel has no guard marks");
        }
        let stacks = Stacks::open_with(addresses(1 << 44), &settings(16, 4)).unwrap();
        let before = mappings();
        // More than the 32,750 that the default limit on mappings allows by mmap and mprotect.
        let mut all: Vec<_> = (0..40_000).map(|_| stacks.stack().unwrap()).collect();
        all.iter().for_each(|stack| use_pages(stack, 1, 1));
        assert!(mappings() <= before + 16, "{} mappings, {before} before", mappings());
        for stack in all.iter().step_by(1000) {
            assert_guarded(stack.bottom(), stack.top());
        }
        // Every second one: what is left is scattered.
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            index % 2 == 0
        });
        stacks.clear();
        assert!(mappings() <= before + 16);
        assert_eq!(stacks.stats().busy_areas, 1 + all.len() as u64);
        drop(all);
        stacks.clear();
        assert_eq!(stacks.stats().busy_areas, 1);
    });
}
