//! Frames mapped in the span, pages with other protections and pages moved, beside plain areas:
//! with every strategy that the kernel has.

use crate::common::*;
use vmalloc::{Frame, FrameSupply, MapFrames, PageRange, Platform, PlatformFault, Protection};
use vmalloc_linux::{CHUNK_PAGES, GuardMeans, Linux};

/// 1 GiB: many chunks, and room to close some.
const SPAN: usize = 1 << 30;

for_all_strategies!(
    here;
    frames_mapped_over_frames_replace_them,
    a_plain_area_where_frames_were_mapped_is_zeroed_and_costs_no_mapping,
    a_huge_range_with_frames_in_it_is_closed_and_opened_again,
    a_closed_chunk_between_mapped_frames_stays_closed,
    frames_outside_the_supply_are_refused,
    executable_pages_run_code,
    threads_may_mix_frames_and_areas_in_a_chunk,
    huge_pages_trap_and_read_as_base_pages_do,
);

fn frames_mapped_over_frames_replace_them(linux: &Linux) {
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
}

fn a_plain_area_where_frames_were_mapped_is_zeroed_and_costs_no_mapping(linux: &Linux) {
    let plain = pages(linux, 100, 2);
    map(linux, plain);
    fill(linux, plain, 1);
    let before = mappings(linux);
    let frames = scattered_frames(linux, 64);
    for round in 0..20 {
        let range = pages(linux, 7 * round, 64);
        let range = if range.intersection(&plain).is_some() { pages(linux, 200 + round, 64) } else { range };
        map_frames(linux, range, &frames);
        fill(linux, range, 7);
        linux.do_unmap(&[range]).unwrap();
        map(linux, range);
        assert_reads(linux, range, 0);
        fill(linux, range, 3);
        linux.do_unmap(&[range]).unwrap();
        assert_reads(linux, plain, 1);
    }
    assert!(mappings(linux) <= before + 2, "{} mappings, there were {before}", mappings(linux));

    // Consecutive frames are one mapping, also if they are mapped one by one.
    let first = linux.take_run(50, 1).unwrap();
    for index in 0..50 {
        map_frames(linux, pages(linux, 300 + index, 1), &[first.plus(index)]);
    }
    assert!(mappings(linux) <= before + 4, "{} mappings, there were {before}", mappings(linux));
}

fn a_huge_range_with_frames_in_it_is_closed_and_opened_again(linux: &Linux) {
    let frames = scattered_frames(linux, 3);
    let all = pages(linux, 5, 12 * CHUNK_PAGES);
    let window = pages(linux, 6 * CHUNK_PAGES - 1, 3);
    let run = linux.take_run(10 * CHUNK_PAGES, 1).unwrap();
    let many: Vec<_> = (0..10 * CHUNK_PAGES).map(|index| run.plus(index)).collect();
    for _ in 0..2 {
        map_frames(linux, window, &frames);
        map(linux, pages(linux, 20, 3));
        fill(linux, window, 6);
        linux.do_unmap(&[all]).unwrap();
        assert_traps(linux, window);
        assert_traps(linux, pages(linux, 20, 3));
        // Windows over whole chunks, one mapping.
        map_frames(linux, pages(linux, CHUNK_PAGES + 3, 10 * CHUNK_PAGES), &many);
        fill(linux, pages(linux, CHUNK_PAGES + 3, 1), 9);
        assert_eq!(frame_value(linux, run), 9);
        assert!(mappings(linux) <= 9, "{} mappings", mappings(linux));
        linux.do_unmap(&[all, pages(linux, 15 * CHUNK_PAGES, 2)]).unwrap();
        assert_traps(linux, pages(linux, CHUNK_PAGES + 3, 2));
        map(linux, pages(linux, CHUNK_PAGES, 8));
        assert_reads(linux, pages(linux, CHUNK_PAGES, 8), 0);
        linux.do_unmap(&[all]).unwrap();
    }
}

/// It had windows, once.
fn a_closed_chunk_between_mapped_frames_stays_closed(linux: &Linux) {
    let frames = scattered_frames(linux, 2);
    let chunk = |index: u64| pages(linux, index * CHUNK_PAGES + 9, 2);
    (0..10).for_each(|index| map_frames(linux, chunk(index), &frames));
    linux.do_unmap(&[pages(linux, 0, 10 * CHUNK_PAGES)]).unwrap();
    map_frames(linux, chunk(2), &frames);
    map_frames(linux, chunk(4), &frames);
    let all = PageRange::new(chunk(2).start(), chunk(4).end()).unwrap();
    linux.do_unmap(&[all]).unwrap();
    for index in 2..5 {
        assert_traps(linux, pages(linux, index * CHUNK_PAGES, 20));
    }
    map(linux, chunk(3));
    assert_reads(linux, chunk(3), 0);
    assert_traps(linux, pages(linux, 3 * CHUNK_PAGES, 9));
}

fn frames_outside_the_supply_are_refused(linux: &Linux) {
    let range = pages(linux, 3, 2);
    let last = linux.geometry().linear_map.unwrap().len();
    for frames in [&[Frame(0), Frame(last)][..], &[Frame(0), Frame(u64::MAX)], &[Frame(0)]] {
        // SAFETY: the test owns the range; what is wrong with the frames is checked.
        let refused = unsafe { linux.map_frames(range, frames, Protection::ReadWrite) }.unwrap_err();
        assert_eq!(refused.fault, PlatformFault::Other);
        assert_traps(linux, range);
    }
}

fn executable_pages_run_code(linux: &Linux) {
    if !cfg!(target_arch = "x86_64") {
        return not_run("executable_pages_run_code", "the code is that of x86-64");
    }
    // mov eax, 42; ret
    const CODE: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3];
    let frames = scattered_frames(linux, 1);
    let (plain, window) = (pages(linux, 3, 1), pages(linux, 9, 1));
    map(linux, plain);
    map_frames(linux, window, &frames);
    for range in [plain, window] {
        let at = page_ptr(linux, range.start());
        // SAFETY: the page is mapped, and has room for the code.
        unsafe { std::ptr::copy_nonoverlapping(CODE.as_ptr(), at, CODE.len()) };
        protect(linux, range, Protection::ReadExecute);
        // SAFETY: a whole function, which touches nothing but a register that the caller gives up.
        let answer = unsafe { std::mem::transmute::<*mut u8, extern "C" fn() -> u32>(at)() };
        assert_eq!(answer, 42);
    }
    linux.do_unmap(&[plain, window]).unwrap();
    assert_traps(linux, plain);
    assert_traps(linux, window);
}

/// Each thread has its places in chunks that it shares with the others, and the chunks open, become
/// special and close meanwhile.
fn threads_may_mix_frames_and_areas_in_a_chunk(linux: &Linux) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let frames = scattered_frames(linux, 4);
                for round in 0..150 {
                    let chunk = round % 40;
                    let small = pages(linux, chunk * CHUNK_PAGES + 100 * (thread + 1), 4);
                    let trap = PageRange::from_len(small.end(), 1).unwrap();
                    // Some stay until the thread comes by again.
                    linux.do_unmap(&[small]).unwrap();
                    if (round + thread) % 2 == 0 {
                        map_frames(linux, small, &frames);
                    } else {
                        map(linux, small);
                        assert_reads(linux, small, 0);
                    }
                    fill(linux, small, thread as u8 + 1);
                    assert_reads(linux, small, thread as u8 + 1);
                    assert_traps(linux, trap);
                    if round % 3 != 0 {
                        linux.do_unmap(&[small, trap]).unwrap();
                        assert_traps(linux, small);
                    }
                    // From the middle of one chunk to that of another, with windows at both ends;
                    // and so many that some are closed.
                    let first = (50 + 12 * thread + round % 2) * CHUNK_PAGES + 1000;
                    let len = if round % 5 == 0 { 9 * CHUNK_PAGES } else { CHUNK_PAGES + 900 };
                    map_frames(linux, pages(linux, first, 4), &frames);
                    map_frames(linux, pages(linux, first + len - 4, 4), &frames);
                    linux.do_unmap(&[pages(linux, first, len)]).unwrap();
                    for offset in [first, first + len - 4, first + CHUNK_PAGES] {
                        assert_traps(linux, pages(linux, offset, 4));
                    }
                }
            });
        }
    });
}

fn huge_pages_trap_and_read_as_base_pages_do(linux: &Linux) {
    let order = linux.geometry().huge_order.unwrap_or(9);
    let huge = 1 << order;
    let to_aligned = linux.geometry().span.start().next_multiple_of(huge) - linux.geometry().span.start();
    for (offset, len) in [(to_aligned + huge, 2 * huge), (to_aligned + 4 * huge - 3, 2 * huge), (20, 4)] {
        let range = pages(linux, offset, len);
        for _ in 0..2 {
            // SAFETY: the test owns the range.
            unsafe { linux.map_huge(range, Protection::ReadWrite) }.unwrap();
            assert_reads(linux, range, 0);
            fill(linux, range, 1);
            assert_eq!([peek(linux, range.start() - 1), peek(linux, range.end())], [None; 2]);
            linux.do_unmap(&[PageRange::from_len(range.start() + 1, 1).unwrap()]).unwrap();
            assert_traps(linux, PageRange::from_len(range.start() + 1, 1).unwrap());
            assert_eq!(peek(linux, range.start() + 2), Some(1));
            linux.do_unmap(&[range, pages(linux, 9 * CHUNK_PAGES, 1)]).unwrap();
            assert_traps(linux, range);
        }
    }
    if linux.guard_means() == GuardMeans::PteMarkers {
        assert!(mappings(linux) <= 4, "{} mappings", mappings(linux));
    }
}

/// Where the kernel has some to give: not an error where it does not.
#[test]
fn huge_pages_are_used_without_splitting_mappings() {
    for_each_strategy(SPAN, |linux| {
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
        unsafe { linux.map_huge(range, Protection::ReadWrite) }.unwrap();
        let line = |name: &str| {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let lines = smaps.lines().filter_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
            lines.map(|kib| kib.parse::<u64>().unwrap()).sum::<u64>()
        };
        eprintln!("{:?}: {} KiB in huge pages", linux.guard_means(), line("AnonHugePages:"));
        assert!(mappings(linux) <= before + 2);
    });
}
