//! Wrong calls: each has its error, and changes nothing.

use crate::mappings::everything::*;
use crate::mappings::support::{FRAMES, PAGE, free, give, page, take, unchanged, with_blocks};
use vmalloc::{
    AllocError, AreaError, Frame, FreeError, Origin, PageRange, Protection, Request, RequestError, Space,
    Translate,
};

const RW: Protection = Protection::ReadWrite;

fn bad(frame: u64, origin: Origin) -> AllocError {
    AllocError::BadFrame { frame, origin }
}

#[test]
fn frames_of_the_wrong_origin_are_refused() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let (own, device) = (all.spare()[0], Frame(FRAMES));
        // Not taken, not taken either, and that of a page.
        let memory = space.platform().physical_page(page(all.addr(PLAIN))).expect("mapped");
        for foreign in [FRAMES - 1, FRAMES + 8, u64::MAX, memory] {
            let frames = [own, own, Frame(foreign)];
            let wrong = Err(bad(foreign, Origin::Foreign));
            assert_eq!(unchanged(space, || space.raw().map(&frames, RW, None)), wrong);
            assert_eq!(unchanged(space, || space.raw().map_short(&frames)), wrong);
            // SAFETY: nothing else maps there.
            let mapped = unchanged(space, || unsafe {
                space.raw().map_pages(all.addr(SPARSE) + 2 * PAGE, &frames[1..], RW)
            });
            assert_eq!(mapped, Err(AreaError::Alloc(bad(foreign, Origin::Foreign))));
            let frames = [device, Frame(foreign)];
            assert_eq!(unchanged(space, || space.raw().map_device(&frames, RW, None)), wrong);
        }
        let wrong = Err(bad(FRAMES, Origin::Device));
        assert_eq!(unchanged(space, || space.raw().map(&[own, device], RW, None)), wrong);
        assert_eq!(unchanged(space, || space.raw().map_short(&[own, device])), wrong);
        let wrong = Err(bad(own.0, Origin::Supply));
        assert_eq!(unchanged(space, || space.raw().map_device(&[device, own], RW, None)), wrong);
        all.end(space);
    });
}

#[test]
fn frames_that_were_given_back_are_foreign() {
    with_blocks(|space| {
        let frames = take(space, 2);
        give(space, &frames[1..]);
        let wrong = Err(bad(frames[1].0, Origin::Foreign));
        assert_eq!(unchanged(space, || space.raw().map(&frames, RW, None)), wrong);
        assert_eq!(unchanged(space, || space.raw().map_short(&frames)), wrong);
        give(space, &frames[..1]);
    });
}

#[test]
fn a_mapping_has_pages() {
    with_blocks(|space| {
        let none = Err(RequestError::ZeroSize.into());
        assert_eq!(unchanged(space, || space.raw().map(&[], RW, None)), none);
        assert_eq!(unchanged(space, || space.raw().map_device(&[], RW, None)), none);
        assert_eq!(unchanged(space, || space.raw().map_short(&[])), none);
        assert_eq!(unchanged(space, || space.raw().reserve_short(0)), none);
        type Call = fn(&Space<vmalloc_sim::Sim>, &Request) -> Result<usize, AllocError>;
        let calls: [Call; 3] = [
            |space, request| space.raw().alloc_shared(request),
            |space, request| space.raw().alloc_exec(request),
            |space, request| space.raw().alloc_sparse(request),
        ];
        for request in calls {
            assert_eq!(unchanged(space, || request(space, &Request::new(0))), none);
            let error = RequestError::SizeOverflow { bytes: usize::MAX };
            assert_eq!(unchanged(space, || request(space, &Request::new(usize::MAX))), Err(error.into()));
            let error = RequestError::AlignNotPowerOfTwo { align: 3 };
            assert_eq!(unchanged(space, || request(space, &Request::new(1).align(3))), Err(error.into()));
        }
    });
}

#[test]
fn addresses_without_number_are_refused() {
    with_blocks(|space| {
        for pages in [u64::MAX, u64::MAX / 2, 1 << 52, 1 << 51, 1 << 50] {
            assert!(unchanged(space, || space.raw().reserve_short(pages)).is_err(), "{pages} pages");
        }
    });
}

#[test]
fn map_shared_takes_shared_memory_alone() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let show = |addr, bytes| unchanged(space, || space.raw().map_shared(addr, bytes, RW, None));
        for addr in all.but(&[USER, SLOT]) {
            assert_eq!(show(addr, PAGE), Err(FreeError::WrongKind { page: page(addr) }.into()));
        }
        let user = all.addr(USER);
        assert_eq!(show(user + 1, PAGE), Err(FreeError::Unaligned { addr: user + 1 }.into()));
        assert_eq!(show(user, 0), Err(RequestError::ZeroSize.into()));
        let pages = PageRange::from_len(page(user), 4).expect("four");
        for (nth, bytes) in [(0, 4 * PAGE + 1), (3, PAGE + 1), (4, 1), (1, usize::MAX)] {
            let asked = PageRange::from_len(page(user) + nth, bytes.div_ceil(PAGE) as u64).expect("some");
            assert_eq!(show(user + nth as usize * PAGE, bytes), Err(AreaError::Beyond { asked, pages }));
        }
        assert_eq!(show(PAGE, PAGE), Err(FreeError::NotAnArea { page: 1 }.into()));
        let freed = space.raw().alloc_shared(&Request::new(PAGE)).expect("room");
        free(space, freed);
        assert_eq!(show(freed, PAGE), Err(FreeError::NotAnArea { page: page(freed) }.into()));
        all.end(space);
    });
}

#[test]
fn map_pages_needs_unmapped_pages() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let (addr, spare) = (all.addr(SPARSE), all.spare());
        // SAFETY: nothing else maps or unmaps anything.
        let map =
            |addr, frames: &[Frame]| unchanged(space, || unsafe { space.raw().map_pages(addr, frames, RW) });
        // SAFETY: as above.
        let unmap = |addr, pages| unchanged(space, || unsafe { space.raw().unmap_pages(addr, pages) });
        let (first, pages) = (page(addr), PageRange::from_len(page(addr), 4).expect("four"));
        assert_eq!(map(addr + PAGE, spare), Err(AreaError::Mapped { page: first + 1 }));
        assert_eq!(map(addr, &[spare[0]]), Err(AreaError::Mapped { page: first }));
        assert_eq!(unmap(addr, 3), Err(AreaError::NotMapped { page: first + 2 }));
        assert_eq!(unmap(addr + 3 * PAGE, 1), Err(AreaError::NotMapped { page: first + 3 }));
        let asked = PageRange::from_len(first + 2, 3).expect("three");
        assert_eq!(map(addr + 2 * PAGE, spare), Err(AreaError::Beyond { asked, pages }));
        assert_eq!(unmap(addr + 2 * PAGE, 3), Err(AreaError::Beyond { asked, pages }));
        let guard = PageRange::from_len(first + 4, 1).expect("one");
        assert_eq!(map(addr + 4 * PAGE, &spare[..1]), Err(AreaError::Beyond { asked: guard, pages }));
        assert_eq!(map(addr, &[]), Err(RequestError::ZeroSize.into()));
        assert_eq!(unmap(addr, 0), Err(RequestError::ZeroSize.into()));
        assert!(unmap(addr, u64::MAX).is_err() && unmap(addr, u64::MAX / 2).is_err());
        assert_eq!(map(addr + 1, spare), Err(FreeError::Unaligned { addr: addr + 1 }.into()));
        for other in all.but(&[SPARSE, SLOT]) {
            let wrong = Err(FreeError::WrongKind { page: page(other) }.into());
            assert_eq!((map(other, &spare[..1]), unmap(other, 1)), (wrong, wrong));
        }
        assert_eq!(map(PAGE, spare), Err(FreeError::NotAnArea { page: 1 }.into()));
        all.end(space);
    });
}

#[test]
fn protect_takes_code_and_mappings_alone() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let set = |addr| {
            // SAFETY: it is refused.
            unchanged(space, || unsafe { space.raw().protect(addr, Protection::Read) })
        };
        for addr in all.but(&[EXEC, VMAP, SHOWN, SLOT]) {
            assert_eq!(set(addr), Err(FreeError::WrongKind { page: page(addr) }.into()));
        }
        for which in [EXEC, VMAP] {
            let (addr, start) = (all.addr(which), page(all.addr(which)));
            assert_eq!(set(addr + PAGE), Err(FreeError::Interior { page: start + 1, start }.into()));
            assert_eq!(set(addr + 4 * PAGE), Err(FreeError::Interior { page: start + 4, start }.into()));
            assert_eq!(set(addr + 1), Err(FreeError::Unaligned { addr: addr + 1 }.into()));
        }
        assert_eq!(set(PAGE), Err(FreeError::NotAnArea { page: 1 }.into()));
        all.end(space);
    });
}
