//! What the platform promises, with every strategy that the kernel has.

use crate::common::*;
use vmalloc::{PageRange, Platform, PlatformFault};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux, SpaceOptions};

/// 1 GiB: many chunks, and room to close some.
const SPAN: usize = 1 << 30;

for_all_strategies!(
    here;
    a_huge_area_can_be_purged_and_mapped_again,
    a_range_outside_the_span_is_refused,
);

fn a_huge_area_can_be_purged_and_mapped_again(linux: &Linux) {
    let area = pages(linux, 5, 12 * CHUNK_PAGES);
    let in_a_used_chunk = linux.geometry().span.start() + 4 * CHUNK_PAGES + 20;
    let samples = [area.start(), area.start() + 3 * CHUNK_PAGES, in_a_used_chunk, area.end() - 1];
    let neighbour = pages(linux, area.end() - linux.geometry().span.start() + 1, 1);
    map(linux, neighbour);
    fill(linux, neighbour, 8);
    for _ in 0..2 {
        map(linux, area);
        for page in samples {
            assert_eq!(peek(linux, page), Some(0));
            fill(linux, PageRange::from_len(page, 1).unwrap(), 6);
        }
        assert_eq!([peek(linux, area.start() - 1), peek(linux, area.end())], [None; 2]);
        linux.do_unmap(&[area]).unwrap();
        assert_eq!(samples.map(|page| peek(linux, page)), [None; 4]);
        // A small area where the huge one was, and around it nothing.
        let small = pages(linux, 4 * CHUNK_PAGES + 7, 2);
        map(linux, small);
        assert_reads(linux, small, 0);
        assert_eq!([peek(linux, small.start() - 1), peek(linux, small.end())], [None; 2]);
        linux.do_unmap(&[small]).unwrap();
        assert_reads(linux, neighbour, 8);
    }
}

fn a_range_outside_the_span_is_refused(linux: &Linux) {
    let span = linux.geometry().span;
    for outside in
        [PageRange::new(span.end() - 1, span.end() + 1), PageRange::new(span.start() - 1, span.start())]
    {
        let outside = outside.unwrap();
        let refused = linux.do_map(outside).unwrap_err();
        assert_eq!(refused.fault, PlatformFault::Other);
        assert_eq!(linux.do_unmap(&[pages(linux, 0, 1), outside]), Err(refused));
    }
}

#[test]
fn marks_cost_no_mappings() {
    for_each_strategy(SPAN, |linux| {
        let before = mappings(linux);
        for index in 0..2000 {
            map(linux, pages(linux, index * 8, 3));
            fill(linux, pages(linux, index * 8, 3), 1);
        }
        match linux.guard_means() {
            // With userfaultfd those of new memory.
            GuardMeans::Mprotect | GuardMeans::Userfault => assert!(mappings(linux) >= 2000),
            _ => assert!(mappings(linux) <= before + 1, "{} mappings", mappings(linux)),
        }
    });
}

/// In a process of its own, for another test's mapping may land where the span was.
#[test]
fn the_span_is_given_back() {
    in_own_process(|| {
        for_each_strategy(SPAN, |linux| {
            let again = vmalloc_linux::LinuxOptions::new().max_bytes(SPAN).guard_means(linux.guard_means());
            let second = Linux::reserve(again, &SpaceOptions::default()).unwrap();
            map(&second, pages(&second, 1, 2));
            let page = second.geometry().span.start() + 1;
            drop(second);
            assert_eq!(peek(linux, page), None);
        });
    });
}

#[test]
fn the_machine_is_described() {
    let linux = Linux::reserve(vmalloc_linux::LinuxOptions::new(), &SpaceOptions::default()).unwrap();
    assert_eq!(1 << linux.geometry().page_shift, rustix::param::page_size());
    assert_eq!(linux.geometry().span.len() << linux.geometry().page_shift, linux.reserved_bytes() as u64);
    assert!(linux.cpu() < linux.geometry().cpus);
    assert_ne!(linux.entropy(), linux.entropy());
}
