//! What the platform promises, with every strategy that the kernel has.

use crate::common::*;
use vmalloc::{Frame, MapFrames, PageRange, Platform, PlatformFault, Protection};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans};

/// 1 GiB: many chunks, and room to close some.
fn span() -> usize {
    page_bytes() << 18
}

#[test]
fn a_range_outside_the_span_is_refused() {
    for_each_strategy(span(), |linux| {
        let span = linux.geometry().span;
        let ends =
            [PageRange::new(span.end() - 1, span.end() + 1), PageRange::new(span.start() - 1, span.start())];
        for outside in ends.into_iter().flatten() {
            let refused = linux.do_map(outside).unwrap_err();
            assert_eq!(refused.fault, PlatformFault::Other);
            assert_eq!(linux.do_unmap(&[pages(linux, 0, 1), outside]), Err(refused));
        }
    });
}

#[test]
fn marks_cost_no_mappings() {
    for_each_strategy(span(), |linux| {
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
        for_each_strategy(span(), |linux| {
            let again = vmalloc_linux::LinuxOptions::new().max_bytes(span()).guard_means(linux.guard_means());
            let second = reserved(again);
            map(&second, pages(&second, 1, 2));
            let page = second.geometry().span.start() + 1;
            drop(second);
            assert_eq!(peek(linux, page), None);
        });
    });
}

#[test]
fn the_machine_is_described() {
    let linux = reserved(vmalloc_linux::LinuxOptions::new());
    assert_eq!(1 << linux.geometry().page_shift, rustix::param::page_size());
    assert_eq!(linux.geometry().span.len() << linux.geometry().page_shift, linux.reserved_bytes() as u64);
    assert!(linux.cpu() < linux.geometry().cpus);
    assert_ne!(linux.entropy(), linux.entropy());
}

#[test]
fn frames_mapped_over_frames_replace_them() {
    for_each_strategy(span(), |linux| {
        assert!(linux.geometry().remaps_atomically);
        let frames = scattered_frames(linux, 12);
        frames.iter().zip(1..).for_each(|(frame, value)| set_frame(linux, *frame, value));
        let range = pages(linux, 5, 4);
        for offset in [0, 0, 1, 8, 3, 0] {
            map_frames(linux, range, &frames[offset..offset + 4]);
            for index in 0..4 {
                assert_eq!(peek(linux, range.start() + index), Some((offset as u64 + index) as u8 + 1));
            }
            assert_eq!([peek(linux, range.start() - 1), peek(linux, range.end())], [None; 2]);
        }
        // A part, and more than there was.
        map_frames(linux, pages(linux, 6, 5), &frames[5..10]);
        let values: Vec<_> =
            (5..11).map(|page| peek(linux, linux.geometry().span.start() + page).unwrap()).collect();
        assert_eq!(values, [1, 6, 7, 8, 9, 10]);
        map_frames(linux, range, &frames[..4]);
        // Frames as before, but to be read only: that is another mapping.
        // SAFETY: the test owns the range, and took the frames.
        unsafe { linux.map_frames(range, &frames[..4], Protection::Read) }.unwrap();
        assert_reads(linux, pages(linux, 5, 1), 1);
        assert!(!can_write(linux, range.start()) && !can_write(linux, range.end() - 1));
        // Others, to be read only as well.
        // SAFETY: as above.
        unsafe { linux.map_frames(range, &frames[6..10], Protection::Read) }.unwrap();
        assert_eq!([0, 3].map(|nth| peek(linux, range.start() + nth)), [Some(7), Some(10)]);
        assert!(!can_write(linux, range.start()) && !can_write(linux, range.end() - 1));
        map_frames(linux, range, &frames[..4]);
        assert!(can_write(linux, range.start()));
    });
}

/// Pages between frames are replaced with them, though they were not open.
#[test]
fn closed_pages_between_frames_trap_when_all_are_unmapped() {
    for_each_strategy(span(), |linux| {
        let frames = scattered_frames(linux, 4);
        let (first, last) = (pages(linux, CHUNK_PAGES - 48, 4), pages(linux, CHUNK_PAGES + 900, 4));
        [first, last].iter().for_each(|range| map_frames(linux, *range, &frames));
        let all = PageRange::new(first.start(), last.end()).unwrap();
        linux.do_unmap(&[all]).unwrap();
        assert_traps(linux, all);
    });
}

#[test]
fn frames_outside_the_supply_are_refused() {
    for_each_strategy(span(), |linux| {
        let (range, taken) = (pages(linux, 3, 2), scattered_frames(linux, 1)[0]);
        let last = linux.geometry().linear_map.unwrap().len();
        for frames in [&[taken, Frame(last)][..], &[taken, Frame(u64::MAX)], &[taken]] {
            // SAFETY: the test owns the range; what is wrong with the frames is checked.
            let refused = unsafe { linux.map_frames(range, frames, Protection::ReadWrite) }.unwrap_err();
            assert_eq!(refused.fault, PlatformFault::Other);
            assert_traps(linux, range);
        }
    });
}

/// Where the kernel has some to give: not an error where it does not.
#[test]
fn huge_pages_are_used_without_splitting_mappings() {
    for_each_strategy(span(), |linux| {
        let Some(order) = linux.geometry().huge_order else {
            let why = "the kernel has no huge pages";
            return not_run("huge_pages_are_used_without_splitting_mappings", why);
        };
        let huge = 1_u64 << order;
        let start = linux.geometry().span.start().next_multiple_of(huge) + huge;
        let range = PageRange::new(start - 5, start + 2 * huge + 5).unwrap();
        map(linux, PageRange::from_len(start - 10, 1).unwrap());
        let before = mappings(linux);
        // SAFETY: the test owns the range.
        unsafe { linux.map_huge(range, Protection::ReadWrite, ()) }.unwrap();
        let bytes: usize = smaps().iter().map(|(_, lines)| told_bytes(lines, "AnonHugePages:")).sum();
        eprintln!("{:?}: {bytes} bytes in huge pages", linux.guard_means());
        assert!(mappings(linux) <= before + 2);
    });
}
