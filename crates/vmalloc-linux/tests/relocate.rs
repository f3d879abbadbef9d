//! Pages moved to other addresses, with every strategy that the kernel has.

mod common;

use common::*;
use vmalloc::{PageRange, PlatformFault, Protection, Relocate};
use vmalloc_linux::{CHUNK_PAGES, Guards, Linux};

/// 1 GiB: many chunks, and room to close some.
const SPAN: usize = 1 << 30;

for_all_strategies!(
    moved_pages_keep_their_content_and_leave_a_trap,
    a_refused_move_leaves_the_pages_in_place,
    an_area_of_several_mappings_moves_with_its_protections,
);

/// Small areas of userfaultfd can't be moved: the answer says so, and changes nothing.
fn cannot_move(linux: &Linux) -> bool {
    if linux.guards() != Guards::Userfault {
        return false;
    }
    let (from, to) = (pages(linux, 10, 4), pages(linux, 100, 4));
    map(linux, from);
    fill(linux, from, 3);
    // SAFETY: the test owns both.
    let moved = unsafe { linux.relocate(from, to) };
    assert_eq!(moved.map_err(|error| error.fault), Err(PlatformFault::Unsupported));
    assert_reads(linux, from, 3);
    assert_traps(linux, to);
    linux.do_unmap(&[from]).unwrap();
    true
}

fn moved_pages_keep_their_content_and_leave_a_trap(linux: &Linux) {
    if cannot_move(linux) {
        return;
    }
    let before = {
        map(linux, pages(linux, 0, 1));
        mappings(linux)
    };
    let mut at = pages(linux, 10, 40);
    map(linux, at);
    for (page, value) in (at.start()..at.end()).zip(1..) {
        // Some pages were never touched.
        if value % 5 != 0 {
            fill(linux, PageRange::from_len(page, 1).unwrap(), value);
        }
    }
    // Into the same chunk, over two that are closed, and onwards from there.
    for offset in [100, 3 * CHUNK_PAGES - 20, 200, 900] {
        let to = pages(linux, offset, 40);
        // SAFETY: the test owns both.
        unsafe { linux.relocate(at, to) }.unwrap();
        assert_traps(linux, at);
        for (page, value) in (to.start()..to.end()).zip(1..) {
            assert_eq!(peek(linux, page), Some(if value % 5 == 0 { 0 } else { value }));
        }
        assert_eq!([peek(linux, to.start() - 1), peek(linux, to.end())], [None; 2]);
        linux.do_unmap(&[at]).unwrap();
        map(linux, at);
        assert_reads(linux, at, 0);
        linux.do_unmap(&[at]).unwrap();
        at = to;
    }
    linux.do_unmap(&[at]).unwrap();
    assert_traps(linux, at);
    map(linux, at);
    assert_reads(linux, at, 0);
    linux.do_unmap(&[at]).unwrap();
    assert!(mappings(linux) <= before + 4, "{} mappings, there were {before}", mappings(linux));
}

fn a_refused_move_leaves_the_pages_in_place(linux: &Linux) {
    let (from, to) = (pages(linux, 3, 4), pages(linux, 20, 4));
    let frames = scattered_frames(linux, 4);
    map_frames(linux, from, &frames);
    fill(linux, from, 5);
    let refuse = |from, to| {
        // SAFETY: the test owns both.
        let refused = unsafe { linux.relocate(from, to) }.unwrap_err();
        assert_eq!(refused.fault, PlatformFault::Unsupported, "{refused}");
        assert_reads(linux, from, 5);
    };
    refuse(from, to);
    assert_traps(linux, to);
    linux.do_unmap(&[from]).unwrap();
    map(linux, from);
    fill(linux, from, 5);
    refuse(from, pages(linux, 6, 4));
    refuse(from, pages(linux, 20, 3));
    // Too many mappings.
    let (from, to) = (pages(linux, 40, 9), pages(linux, 60, 9));
    map(linux, from);
    fill(linux, from, 5);
    (41..49).step_by(2).for_each(|page| protect(linux, pages(linux, page, 1), Protection::Read));
    refuse(from, to);
    assert_traps(linux, to);
    assert!(!can_write(linux, from.start() + 1) && can_write(linux, from.start()));
    map(linux, to);
    assert_reads(linux, to, 0);
}

fn an_area_of_several_mappings_moves_with_its_protections(linux: &Linux) {
    if cannot_move(linux) {
        return;
    }
    let mut at = pages(linux, 10, 8);
    map(linux, at);
    let before = mappings(linux);
    let value = |offset: u64| if offset == 1 { 0 } else { offset as u8 + 1 };
    for offset in (0..8).filter(|offset| *offset != 1) {
        fill(linux, PageRange::from_len(at.start() + offset, 1).unwrap(), value(offset));
    }
    // Three mappings, then five; a part of what was moved is protected, too.
    protect(linux, pages(linux, 13, 2), Protection::Read);
    for (round, offset) in [CHUNK_PAGES - 4, 100, 3 * CHUNK_PAGES].into_iter().enumerate() {
        let to = pages(linux, offset, 8);
        // SAFETY: the test owns both.
        unsafe { linux.relocate(at, to) }.unwrap();
        assert_traps(linux, at);
        linux.do_unmap(&[at]).unwrap();
        if round == 0 {
            protect(linux, PageRange::from_len(to.start() + 6, 1).unwrap(), Protection::ReadExecute);
        }
        for offset in 0..8 {
            let page = to.start() + offset;
            assert_eq!(peek(linux, page), Some(value(offset)), "{offset} in round {round}");
            assert_eq!(can_write(linux, page), ![3, 4, 6].contains(&offset), "{offset} in round {round}");
        }
        assert_eq!([peek(linux, to.start() - 1), peek(linux, to.end())], [None; 2]);
        at = to;
    }
    linux.do_unmap(&[at]).unwrap();
    assert_traps(linux, at);
    assert!(mappings(linux) <= before + 4, "{} mappings, there were {before}", mappings(linux));
}
