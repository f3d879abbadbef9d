//! Kernel mappings and memory: they are counted for the whole process, which is each test's own.

use crate::common::{fill, is_zero, page_bytes, pool, space};
use vmalloc_harness::{in_own_process, map_limit};
use vmalloc_linux::GuardMeans;
use vmalloc_slots::{Dirty, Slot, Slots, SlotsOptions};

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Slots that come and go take no kernel mappings for ever.
#[test]
fn slots_that_went_back_leave_no_mappings() {
    in_own_process(|| {
        let pool = pool(SlotsOptions::new(4 << 30).max_slots(64));
        let before = mappings();
        for _ in 0..20 {
            let all: Vec<_> = (0..64).map(|_| pool.alloc().unwrap()).collect();
            drop(all);
            pool.trim(0).unwrap();
            pool.space().purge().unwrap();
            let more = mappings().saturating_sub(before);
            assert!(more < 10, "{more} more mappings");
        }
    });
}

/// Each large slot costs two mappings, for all that is between them is left closed.
#[test]
fn large_slots_leave_an_eighth_of_the_mappings_to_the_program() {
    in_own_process(|| {
        let Some(max) = map_limit() else { return };
        let mut pools =
            (0..2).map(|_| pool(SlotsOptions::new(64 << 20).head_bytes(page_bytes()))).collect::<Vec<_>>();
        let mut slots: Vec<Slot<_>> = Vec::new();
        let refused = (0..max).find_map(|nth| match Slot::new(pools[nth as usize % 2].clone()) {
            Ok(slot) => {
                slots.push(slot);
                None
            }
            Err(error) => Some(error),
        });
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count() as u64;
        let thread = std::thread::Builder::new().spawn(|| 5);
        assert_eq!(thread.expect("there are mappings for its stack").join().unwrap(), 5);
        assert!(mappings <= max - max / 16, "{mappings} mappings of {max}, {} slots", slots.len());
        let text = refused.expect("the mappings are fewer than the slots").to_string();
        assert!(text.contains("vm.max_map_count"), "{text}");
        drop(slots);
        pools.clear();
    });
}

/// Returns how many bytes of private memory the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// A bound is a bound with every kind of guards, also where a page that is missing would trap, and
/// where new pages have memory from the start.
#[test]
fn free_slots_keep_no_more_memory_than_the_bound_with_any_guards() {
    in_own_process(|| {
        const HEAD: usize = 720 << 10;
        const SLOTS: u64 = 100;
        for guards in GuardMeans::all() {
            let options = vmalloc_linux::LinuxOptions::new().max_bytes(1 << 36).guard_means(guards);
            let Some(space) = space(options) else { continue };
            for most in [0, 64 << 10] {
                let options =
                    SlotsOptions::new(64 << 20).head_bytes(HEAD).keep_bytes(most).resident_bytes(most);
                let pool = Slots::new(space.clone(), options).unwrap();
                let before = resident();
                let all: Vec<_> = (0..SLOTS).map(|_| pool.alloc().unwrap()).collect();
                for (nth, mut slot) in all.into_iter().enumerate() {
                    if nth % 2 == 0 {
                        fill(&mut slot, HEAD);
                        drop(slot);
                    } else {
                        // SAFETY: nothing uses the slot, and nothing was written.
                        unsafe { slot.free(Dirty::Below(0)) };
                    }
                }
                pool.flush().unwrap();
                let more = resident().saturating_sub(before);
                // Page tables and the pool's own records are no part of the bound.
                let room = most as u64 + SLOTS * HEAD as u64 / 8;
                assert!(more <= room, "{guards:?}: {more} bytes more, of at most {most}");
                assert!(pool.stats().kept_bytes <= most as u64);
                // The next owner finds zeros, and memory at a touch.
                for mut slot in (0..SLOTS).map(|_| pool.alloc().unwrap()) {
                    assert!(is_zero(&slot));
                    fill(&mut slot, HEAD);
                }
            }
        }
    });
}

/// A huge page at the touch of a head's first byte would be 2 MiB of which one page was written.
/// The bounds of a pool count pages. Where the setting is `always`, the kernel would put some.
#[test]
fn slots_keep_no_more_than_the_bound_where_huge_pages_come_by_themselves() {
    in_own_process(|| {
        const HEAD: usize = 16 << 20;
        for guards in GuardMeans::all() {
            let Some(space) = space(vmalloc_linux::LinuxOptions::new().guard_means(guards)) else {
                continue;
            };
            let options = SlotsOptions::new(64 << 20).head_bytes(HEAD).keep_bytes(16 * page_bytes());
            let pool = Slots::new(space, options).unwrap();
            let mut all: Vec<_> = (0..10).map(|_| pool.alloc().unwrap()).collect();
            assert!(all.iter().all(|slot| gets_no_huge_page(slot.addr())), "{guards:?}");
            let before = resident();
            for slot in &mut all {
                fill(slot, page_bytes());
            }
            for slot in all {
                // SAFETY: nothing uses the slot, of which the first page was written.
                unsafe { slot.free(Dirty::Below(page_bytes())) };
            }
            let more = resident().saturating_sub(before);
            assert!(more < 1 << 20, "{guards:?}: {more} bytes more");
        }
    });
}

/// Returns true if the kernel is told to put no huge page behind the mapping of an address.
fn gets_no_huge_page(addr: usize) -> bool {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_inside = false;
    for line in smaps.lines() {
        if let Some((start, end)) = line.split(' ').next().and_then(|range| range.split_once('-')) {
            let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).unwrap());
            is_inside = (start..end).contains(&addr);
        } else if is_inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().any(|flag| flag == "nh");
        }
    }
    false
}
