//! Wrong calls: each has its error, and changes nothing.

use crate::support::{
    FRAMES, PAGE, devices, fill, free_sparse, give, page, shows, take, unchanged, unmap_ram, vfree, vunmap,
    with_blocks,
};
use vmalloc::{
    AllocError, AreaError, Frame, FreeError, Kind, Origin, PageRange, Platform, Protection, Request,
    RequestError, Space, Translate,
};
use vmalloc_sim::Sim;

const RW: Protection = Protection::ReadWrite;

/// An area of every kind, in a space whose frames are these.
struct Everything {
    /// Some for the areas, and three in reserve.
    frames: Vec<Frame>,
    /// By address: what is there, and how many pages.
    areas: Vec<(usize, usize)>,
    words: Vec<Vec<u64>>,
    base: usize,
}

const OFFSETS: [usize; 2] = [0, 8 * PAGE];
const SIZES: [usize; 2] = [4 * PAGE, 4 * PAGE];
/// Which area is what.
const PLAIN: usize = 0;
const EXEC: usize = 1;
const USER: usize = 2;
const VMAP: usize = 3;
const IOMAP: usize = 4;
const SHOWN: usize = 5;
const SPARSE: usize = 6;
const SLOT: usize = 7;
const LARGE: usize = 8;
const RESERVED: usize = 9;

impl Everything {
    fn new(space: &Space<Sim>) -> Self {
        let frames = take(space, 80);
        let request = Request::new(4 * PAGE);
        let user = space.vmalloc_user(&request).expect("room");
        let sparse = space.sparse(&request).expect("room");
        // SAFETY: nobody else maps there.
        unsafe { space.map_pages(sparse, &frames[..2], RW) }.expect("room");
        let areas = vec![
            (space.alloc(&request).expect("room"), 4),
            (space.vmalloc_exec(&request).expect("room"), 4),
            (user, 4),
            (space.vmap(&frames[2..6], RW, None).expect("room"), 4),
            (space.vmap_pfn(&devices(4), RW, None).expect("room"), 4),
            (space.remap_vmalloc_range(user, 4 * PAGE, RW, None).expect("room"), 4),
            (sparse, 2),
            (space.vm_map_ram(&frames[6..10]).expect("room"), 4),
            (space.vm_map_ram(&frames[10..77]).expect("room"), 67),
        ];
        let words = areas.iter().map(|&(addr, count)| fill(space, addr, count)).collect();
        let reserved = space.reserve(&request).expect("room");
        let base = space.pcpu_get_vm_areas(&OFFSETS, &SIZES, PAGE).expect("room");
        let areas = areas.into_iter().chain([(reserved, 4)]).collect();
        Self { frames, areas, words, base }
    }

    fn addr(&self, which: usize) -> usize {
        self.areas[which].0
    }

    fn spare(&self) -> &[Frame] {
        &self.frames[77..]
    }

    /// Starts of areas but these.
    fn but(&self, which: &[usize]) -> Vec<usize> {
        let others = self.areas.iter().enumerate().filter(|(nth, _)| !which.contains(nth));
        others.map(|(_, &(addr, _))| addr).collect()
    }

    /// Everything is as it was, and is freed.
    fn end(self, space: &Space<Sim>) {
        for (nth, (&(addr, _), words)) in self.areas.iter().zip(&self.words).enumerate() {
            // What is shown was written last.
            shows(space, addr, if nth == USER { &self.words[SHOWN] } else { words });
        }
        [PLAIN, EXEC, USER].into_iter().for_each(|which| vfree(space, self.addr(which)));
        [VMAP, IOMAP, SHOWN].into_iter().for_each(|which| vunmap(space, self.addr(which)));
        [SLOT, LARGE].into_iter().for_each(|which| unmap_ram(space, self.addr(which), self.areas[which].1));
        space.unreserve(self.addr(RESERVED)).expect("reserved");
        free_sparse(space, self.addr(SPARSE));
        space.pcpu_free_vm_areas(self.base, &OFFSETS, &SIZES).expect("made");
        space.purge().expect("nothing fails");
        give(space, &self.frames);
    }
}

/// Addresses at which nothing begins.
fn nowhere(space: &Space<Sim>, all: &Everything) -> Vec<usize> {
    let span = space.platform().span();
    let inside = all.areas.iter().flat_map(|&(addr, _)| [addr + 1, addr + PAGE, addr + PAGE / 2]);
    let outside = [0, 1, PAGE, usize::MAX, usize::MAX & !(PAGE - 1), (span.start() as usize - 1) * PAGE];
    let free = (span.end() as usize - 40) * PAGE;
    inside.chain(outside).chain([span.end() as usize * PAGE, free]).collect()
}

type Free = fn(&Space<Sim>, usize) -> Result<(), FreeError>;

/// What frees by address alone, and which areas it is for.
const FREES: [(&str, Free, &[usize]); 4] = [
    // SAFETY: what is freed is the test's, and nothing uses it: here and below.
    ("vfree", |space, addr| unsafe { space.vfree(addr) }, &[PLAIN, EXEC, USER]),
    // SAFETY: as above.
    ("vunmap", |space, addr| unsafe { space.vunmap(addr) }, &[VMAP, IOMAP, SHOWN]),
    // SAFETY: as above.
    ("free_sparse", |space, addr| unsafe { space.free_sparse(addr) }, &[SPARSE]),
    ("unreserve", |space, addr| space.unreserve(addr), &[RESERVED]),
];

#[test]
fn an_area_is_freed_by_its_own_call_only() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let slot_block = space.find(all.addr(SLOT)).expect("a block").addr;
        for (name, free, own) in FREES {
            let others = all.but(own);
            let starts =
                others.into_iter().filter(|&addr| space.find(addr).is_some_and(|area| area.addr == addr));
            for addr in starts.chain([all.base, all.base + OFFSETS[1], slot_block]) {
                let refused = unchanged(space, || free(space, addr));
                assert_eq!(refused, Err(FreeError::WrongKind { page: page(addr) }), "{name} at {addr:#x}");
            }
        }
        all.end(space);
    });
}

#[test]
fn nothing_is_freed_where_nothing_begins() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (name, free, _) in FREES {
            for addr in nowhere(space, &all) {
                let refused = unchanged(space, || free(space, addr));
                let kind = space.find(addr).map(|area| (area.kind, area.addr == addr));
                let is_right = match refused {
                    Err(FreeError::Unaligned { .. }) => !addr.is_multiple_of(PAGE),
                    Err(FreeError::NotAnArea { .. }) => kind.is_none(),
                    Err(FreeError::Interior { start, .. }) => {
                        space.find(addr).is_some_and(|area| page(area.addr) == start)
                    }
                    // A block that begins where its second slot would be an area.
                    Err(FreeError::WrongKind { .. }) => kind.is_some_and(|(_, starts)| starts),
                    _ => false,
                };
                assert!(is_right, "{name} at {addr:#x}: {refused:?}");
            }
        }
        all.end(space);
    });
}

#[test]
fn what_was_freed_is_not_freed_twice() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (free, kind) in
            [(FREES[0].1, Kind::Vmalloc), (FREES[1].1, Kind::Vmap), (FREES[2].1, Kind::Sparse)]
        {
            let addr = match kind {
                Kind::Vmalloc => space.alloc(&Request::new(PAGE)).expect("room"),
                Kind::Vmap => space.vmap(all.spare(), RW, None).expect("room"),
                _ => space.sparse(&Request::new(PAGE)).expect("room"),
            };
            free(space, addr).expect("busy");
            let again = unchanged(space, || free(space, addr));
            assert!(
                matches!(again, Err(FreeError::AlreadyFreed { .. } | FreeError::NotAnArea { .. })),
                "{again:?}"
            );
            space.purge().expect("nothing fails");
            assert!(free(space, addr).is_err());
        }
        all.end(space);
    });
}

fn unmap(space: &Space<Sim>, addr: usize, count: usize) -> Result<(), FreeError> {
    // SAFETY: the frames are the test's.
    unsafe { space.vm_unmap_ram(addr, count) }
}

#[test]
fn a_short_mapping_ends_with_the_number_of_pages_it_began_with() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for (which, mapped) in [(SLOT, 4), (LARGE, 67)] {
            let addr = all.addr(which);
            for given in [0, 1, 3, 5, 63, 64, 65, 66, 68, 128, 132, 195, 260, 1 << 20, usize::MAX] {
                let refused = unchanged(space, || unmap(space, addr, given));
                let wrong = FreeError::WrongCount { page: page(addr), mapped, given: given as u64 };
                assert_eq!(refused, Err(wrong), "{given} pages");
            }
        }
        all.end(space);
    });
}

#[test]
fn slots_are_not_returned_from_their_middle_or_by_others_names() {
    with_blocks(|space| {
        let all = Everything::new(space);
        for addr in [all.addr(SLOT) + PAGE, all.addr(SLOT) + 3 * PAGE] {
            for count in [1, 2, 3, 4] {
                let refused = unchanged(space, || unmap(space, addr, count));
                assert!(matches!(refused, Err(FreeError::NotAnArea { .. })), "{refused:?}");
            }
        }
        let refused = unchanged(space, || unmap(space, all.addr(LARGE) + PAGE, 66));
        assert_eq!(
            refused,
            Err(FreeError::Interior { page: page(all.addr(LARGE)) + 1, start: page(all.addr(LARGE)) })
        );
        for which in [PLAIN, EXEC, USER, VMAP, IOMAP, SHOWN, SPARSE, RESERVED] {
            let (addr, count) = all.areas[which];
            let refused = unchanged(space, || unmap(space, addr, count));
            assert_eq!(refused, Err(FreeError::WrongKind { page: page(addr) }));
        }
        for addr in nowhere(space, &all) {
            assert!(unchanged(space, || unmap(space, addr, 1)).is_err(), "at {addr:#x}");
        }
        all.end(space);
    });
}

#[test]
fn slots_are_returned_once() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let addr = space.vm_map_ram(all.spare()).expect("room");
        fill(space, addr, 3);
        unmap_ram(space, addr, 3);
        for count in [0, 1, 3, 4] {
            let again = unchanged(space, || unmap(space, addr, count));
            assert_eq!(again, Err(FreeError::AlreadyFreed { page: page(addr) }), "{count} pages");
        }
        all.end(space);
    });
}

/// In the byte of a slot a bit says that it was returned: together with the pages it is another number.
#[test]
#[ignore = "`vm_unmap_ram` compares the whole byte of a slot, with the bit that says that it was returned"]
fn returned_slots_are_not_let_go_by_a_number_that_looks_like_them() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let addr = space.vm_map_ram(all.spare()).expect("room");
        let beside = space.vm_map_ram(all.spare()).expect("room");
        let words = fill(space, beside, 3);
        unmap_ram(space, addr, 3);
        let again = unchanged(space, || unmap(space, addr, 128 + 3));
        assert!(again.is_err());
        shows(space, beside, &words);
        unmap_ram(space, beside, 3);
        all.end(space);
    });
}

#[test]
fn runs_of_the_linear_map_end_as_they_began() {
    let space =
        crate::support::space(crate::support::plain(1024, 2).linear(0x10_0000), vmalloc::Config::default());
    let frames = crate::support::take_run(&space, 4);
    let addr = space.vm_map_ram(&frames[1..]).expect("there");
    for given in [0, 1, 2, 4, 64, 65, usize::MAX] {
        let refused = unchanged(&space, || unmap(&space, addr, given));
        assert_eq!(refused, Err(FreeError::WrongCount { page: page(addr), mapped: 3, given: given as u64 }));
    }
    for other in [addr - PAGE, addr + PAGE, addr + 5000 * PAGE] {
        assert_eq!(
            unchanged(&space, || unmap(&space, other, 3)),
            Err(FreeError::NotAnArea { page: page(other) })
        );
    }
    for (_, free, _) in FREES {
        assert_eq!(unchanged(&space, || free(&space, addr)), Err(FreeError::NotAnArea { page: page(addr) }));
    }
    unmap_ram(&space, addr, 3);
    assert_eq!(unchanged(&space, || unmap(&space, addr, 3)), Err(FreeError::NotAnArea { page: page(addr) }));
    give(&space, &frames);
    crate::support::finish(&space);
}

fn bad(frame: u64, origin: Origin) -> AllocError {
    AllocError::BadFrame { frame, origin }
}

#[test]
fn frames_have_to_be_of_the_right_origin() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let (own, device) = (all.spare()[0], Frame(FRAMES));
        // Nobody's, nobody's either, and that of a page.
        let memory = space.platform().frame(page(all.addr(PLAIN))).expect("mapped");
        for foreign in [FRAMES - 1, FRAMES + 8, u64::MAX, memory] {
            let frames = [own, own, Frame(foreign)];
            let wrong = Err(bad(foreign, Origin::Foreign));
            assert_eq!(unchanged(space, || space.vmap(&frames, RW, None)), wrong);
            assert_eq!(unchanged(space, || space.vm_map_ram(&frames)), wrong);
            // SAFETY: nobody else maps there.
            let mapped = unchanged(space, || unsafe {
                space.map_pages(all.addr(SPARSE) + 2 * PAGE, &frames[1..], RW)
            });
            assert_eq!(mapped, Err(AreaError::Alloc(bad(foreign, Origin::Foreign))));
            let frames = [device, Frame(foreign)];
            assert_eq!(unchanged(space, || space.vmap_pfn(&frames, RW, None)), wrong);
        }
        let wrong = Err(bad(FRAMES, Origin::Device));
        assert_eq!(unchanged(space, || space.vmap(&[own, device], RW, None)), wrong);
        assert_eq!(unchanged(space, || space.vm_map_ram(&[own, device])), wrong);
        let wrong = Err(bad(own.0, Origin::Supply));
        assert_eq!(unchanged(space, || space.vmap_pfn(&[device, own], RW, None)), wrong);
        all.end(space);
    });
}

#[test]
fn frames_that_were_given_back_are_foreign() {
    with_blocks(|space| {
        let frames = take(space, 2);
        give(space, &frames[1..]);
        let wrong = Err(bad(frames[1].0, Origin::Foreign));
        assert_eq!(unchanged(space, || space.vmap(&frames, RW, None)), wrong);
        assert_eq!(unchanged(space, || space.vm_map_ram(&frames)), wrong);
        give(space, &frames[..1]);
    });
}

#[test]
fn a_mapping_has_pages() {
    with_blocks(|space| {
        let none = Err(RequestError::ZeroSize.into());
        assert_eq!(unchanged(space, || space.vmap(&[], RW, None)), none);
        assert_eq!(unchanged(space, || space.vmap_pfn(&[], RW, None)), none);
        assert_eq!(unchanged(space, || space.vm_map_ram(&[])), none);
        assert_eq!(unchanged(space, || space.block_alloc(0)), none);
        for request in [Space::vmalloc_user, Space::vmalloc_exec, Space::sparse] {
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
            assert!(unchanged(space, || space.block_alloc(pages)).is_err(), "{pages} pages");
        }
    });
}

#[test]
fn only_user_memory_is_shown_elsewhere_and_only_as_far_as_it_goes() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let show = |addr, bytes| unchanged(space, || space.remap_vmalloc_range(addr, bytes, RW, None));
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
        let freed = space.vmalloc_user(&Request::new(PAGE)).expect("room");
        vfree(space, freed);
        assert_eq!(show(freed, PAGE), Err(FreeError::NotAnArea { page: page(freed) }.into()));
        all.end(space);
    });
}

#[test]
fn pages_are_mapped_where_nothing_is_and_unmapped_where_something_is() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let (addr, spare) = (all.addr(SPARSE), all.spare());
        // SAFETY: nobody else maps or unmaps anything.
        let map = |addr, frames: &[Frame]| unchanged(space, || unsafe { space.map_pages(addr, frames, RW) });
        // SAFETY: as above.
        let unmap = |addr, pages| unchanged(space, || unsafe { space.unmap_pages(addr, pages) });
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
fn only_code_and_mappings_change_what_they_allow() {
    with_blocks(|space| {
        let all = Everything::new(space);
        let set = |addr| {
            // SAFETY: it is refused.
            unchanged(space, || unsafe { space.set_protection(addr, Protection::Read) })
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
