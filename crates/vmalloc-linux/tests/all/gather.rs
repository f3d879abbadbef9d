//! Pages given up by their owner and gathered in an area, whether the kernel moves or copies them.

use crate::common::{PAGE, guards_by_mapping, in_forked_child, in_own_process, not_run, opened};
use std::sync::Arc;
use vmalloc::{Buffer, Request, Space, SpaceOptions, Zeroed};
use vmalloc_linux::gather::{GatherArea, GatherError, Gathered};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

const NO_MOVES: &str = "userfaultfd is refused, or Linux is before 6.8";

type Memory = Buffer<Arc<Space<Linux>>, Zeroed>;

fn space(guards: GuardMeans) -> Option<Arc<Space<Linux>>> {
    let options = LinuxOptions::new().max_bytes(1 << 30).guard_means(guards).drain_thread(false);
    // There, memory comes of the stash, and a missing page traps.
    let is_registered = guards == GuardMeans::Userfault;
    opened(open(options, SpaceOptions::default().trap_on_free(is_registered)))
}

/// Runs a scenario with every kind of guards that the kernel has.
fn everywhere(scenario: impl Fn(&Arc<Space<Linux>>)) {
    for space in GuardMeans::all().filter_map(space) {
        scenario(&space);
        space.purge().unwrap();
        space.verify().unwrap();
    }
}

/// Pages of which each begins and ends with its number, from 1 on.
fn memory(space: &Arc<Space<Linux>>, pages: usize) -> (Memory, Vec<usize>) {
    let new = || Memory::new(space.clone(), &Request::new(pages * PAGE)).unwrap();
    new().fill(1);
    let mut memory = new();
    for (page, number) in memory.chunks_exact_mut(PAGE).zip(1..) {
        (page[0], page[PAGE - 1]) = (number, number);
    }
    let first = memory.addr();
    (memory, (0..pages).map(|page| first + page * PAGE).collect())
}

/// Gathers pages of a buffer of the test's that nothing uses meanwhile.
fn gather(
    area: &mut GatherArea<Arc<Space<Linux>>>,
    at: usize,
    from: &[usize],
) -> Result<Gathered, GatherError> {
    // SAFETY: see above.
    unsafe { area.gather(at, from) }
}

#[track_caller]
fn assert_holds(area: &GatherArea<Arc<Space<Linux>>>, at: usize, numbers: &[u8]) {
    let bytes = area.get(at, numbers.len()).expect("gathered pages");
    for (page, number) in bytes.chunks_exact(PAGE).zip(numbers) {
        assert_eq!((page[0], page[PAGE / 2], page[PAGE - 1]), (*number, 0, *number));
    }
}

#[track_caller]
fn assert_numbers(memory: &[u8], numbers: &[u8]) {
    let found: Vec<_> = memory.chunks_exact(PAGE).map(|page| (page[0], page[PAGE - 1])).collect();
    assert_eq!(found, numbers.iter().map(|number| (*number, *number)).collect::<Vec<_>>());
}

#[test]
fn gathered_pages_keep_their_content_and_leave_zeros() {
    everywhere(|space| {
        let mut area = GatherArea::new(space.clone(), 6).unwrap();
        let (memory, pages) = memory(space, 5);
        let untouched = Memory::new(space.clone(), &Request::new(2 * PAGE)).unwrap();
        gather(&mut area, 0, &[untouched.addr() + PAGE, untouched.addr()]).unwrap();
        assert_holds(&area, 0, &[0, 0]);
        area.clear(0, 2).unwrap();
        let gathered = gather(&mut area, 1, &[pages[4], pages[1], pages[2], pages[0]]).unwrap();
        assert_eq!(gathered.moved + gathered.copied, 4);
        assert!(area.is_moving() || gathered.moved == 0, "{gathered:?}");
        assert_holds(&area, 1, &[5, 2, 3, 1]);
        assert_numbers(&memory, &[0, 0, 0, 4, 0]);
        assert!(area.get(0, 1).is_none() && area.get(4, 2).is_none() && area.get(6, 1).is_none());
        area.get_mut(2, 1).unwrap()[7] = 9;
        assert_eq!(area.get(2, 1).unwrap()[7], 9);
    });
}

#[test]
fn cleared_pages_are_empty_and_gather_again() {
    everywhere(|space| {
        let mut area = GatherArea::new(space.clone(), 4).unwrap();
        for round in 0..20 {
            let (_memory, pages) = memory(space, 4);
            assert_eq!(gather(&mut area, 0, &pages).unwrap().copied == 0, area.is_moving(), "{round}");
            assert_holds(&area, 0, &[1, 2, 3, 4]);
            area.clear(0, 4).unwrap();
            assert!(area.get(3, 1).is_none());
        }
    });
}

#[test]
fn pages_go_from_area_to_area_and_back() {
    everywhere(|space| {
        let mut pool = GatherArea::new(space.clone(), 5).unwrap();
        let mut area = GatherArea::new(space.clone(), 3).unwrap();
        let (_memory, pages) = memory(space, 5);
        gather(&mut pool, 0, &pages).unwrap();
        area.gather_from(0, &mut pool, &[3, 1]).unwrap();
        assert_holds(&area, 0, &[4, 2]);
        assert_eq!(area.gather_from(2, &mut pool, &[1]), Err(GatherError::Empty { at: 1 }));
        assert_eq!(area.gather_from(2, &mut pool, &[0, 0]), Err(GatherError::Empty { at: 0 }), "twice");
        let beyond = GatherError::Beyond { at: 5, pages: 1, len: 5 };
        assert_eq!(area.gather_from(2, &mut pool, &[5]), Err(beyond));
        pool.gather_from(1, &mut area, &[0]).unwrap();
        assert_eq!(pool.gather_from(3, &mut area, &[0]), Err(GatherError::Empty { at: 0 }));
        pool.gather_from(3, &mut area, &[1]).unwrap();
        assert_holds(&pool, 0, &[1, 4, 3, 2, 5]);
        assert_eq!(
            area.gather_from(1, &mut pool, &[0, 2, 3]),
            Err(GatherError::Beyond { at: 1, pages: 3, len: 3 })
        );
        assert_holds(&pool, 0, &[1, 4, 3, 2, 5]);
    });
}

#[test]
fn pages_go_between_spaces_of_all_guards() {
    let spaces: Vec<_> = GuardMeans::all().filter_map(space).collect();
    for from in &spaces {
        for to in &spaces {
            let mut pool = GatherArea::new(from.clone(), 3).unwrap();
            let mut area = GatherArea::new(to.clone(), 3).unwrap();
            let (_memory, pages) = memory(from, 3);
            gather(&mut pool, 0, &pages).unwrap();
            area.gather_from(0, &mut pool, &[2, 0]).unwrap();
            pool.gather_from(2, &mut area, &[0]).unwrap();
            assert_holds(&pool, 1, &[2, 3]);
            assert_holds(&area, 1, &[1]);
            pool.clear(0, 3).unwrap();
            area.clear(0, 3).unwrap();
        }
    }
}

#[test]
fn bad_requests_get_typed_errors_and_change_nothing() {
    everywhere(|space| {
        let mut area = GatherArea::new(space.clone(), 2).unwrap();
        let (memory, pages) = memory(space, 3);
        let beyond = |at, pages| Err(GatherError::Beyond { at, pages, len: 2 });
        assert_eq!(gather(&mut area, 0, &pages), beyond(0, 3));
        assert_eq!(gather(&mut area, usize::MAX, &pages), beyond(usize::MAX, 3));
        assert_eq!(area.clear(1, 2), beyond(1, 2).map(drop));
        let addr = pages[1] + 8;
        assert_eq!(gather(&mut area, 0, &[pages[0], addr]), Err(GatherError::Unaligned { addr }));
        let addr = area.addr() + PAGE;
        assert_eq!(gather(&mut area, 0, &[pages[0], addr]), Err(GatherError::Inside { addr }));
        assert_numbers(&memory, &[1, 2, 3]);
        assert_eq!(gather(&mut area, 1, &[]), Ok(Gathered::default()));
        gather(&mut area, 1, &pages[..1]).unwrap();
        assert_eq!(gather(&mut area, 0, &pages[1..]), Err(GatherError::Occupied { at: 1 }));
        assert_holds(&area, 1, &[1]);
        assert_numbers(&memory, &[0, 2, 3]);
        assert!(matches!(GatherArea::new(space.clone(), 0), Err(GatherError::Alloc(_))));
        assert!(matches!(GatherArea::new(space.clone(), usize::MAX), Err(GatherError::Alloc(_))));
    });
}

/// Pages that the kernel can't move: shared memory, memory that can't be written, a guard page.
#[test]
fn a_refused_page_leaves_all_pages_where_they_were() {
    for space in guards_by_mapping().filter_map(space) {
        let mut area = GatherArea::new(space.clone(), 8).unwrap();
        if !area.is_moving() {
            not_run("a_refused_page_leaves_all_pages_where_they_were", NO_MOVES);
            continue;
        }
        let (memory, pages) = memory(&space, 3);
        let (anonymous, write) = (libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        let kinds = [(libc::MAP_SHARED, write), (libc::MAP_PRIVATE, libc::PROT_READ)];
        for (kind, access) in kinds {
            // SAFETY: new memory of the test's.
            let other = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, kind | anonymous, -1, 0) };
            let addr = other.addr();
            let refused = gather(&mut area, 2, &[pages[1], pages[2], addr, pages[0]]);
            assert_eq!(refused, Err(GatherError::NotMovable { addr, code: libc::EINVAL }));
            assert_numbers(&memory, &[1, 2, 3]);
            assert!(area.get(2, 1).is_none());
            // SAFETY: as above.
            unsafe { libc::munmap(other, PAGE) };
        }
        let guard = memory.addr() + memory.capacity();
        let refused = gather(&mut area, 0, &[pages[0], pages[1], pages[2], guard]);
        assert!(matches!(refused, Err(GatherError::NotMovable { addr, .. }) if addr == guard), "{refused:?}");
        assert_numbers(&memory, &[1, 2, 3]);
        // A run of pages that the kernel has in two mappings.
        // SAFETY: a page of the test's.
        let answer = unsafe { libc::madvise((pages[1] as *mut u8).cast(), PAGE, libc::MADV_DONTDUMP) };
        assert_eq!(answer, 0);
        assert_eq!(gather(&mut area, 0, &pages), Ok(Gathered { moved: 3, copied: 0 }));
        assert_holds(&area, 0, &[1, 2, 3]);
    }
}

#[test]
fn a_stray_touch_of_an_empty_page_is_overwritten() {
    everywhere(|space| {
        let mut area = GatherArea::new(space.clone(), 3).unwrap();
        let (_memory, pages) = memory(space, 3);
        // SAFETY: the page is the area's, and mapped.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(area.addr() + PAGE).write_volatile(77) };
        gather(&mut area, 0, &pages).unwrap();
        assert_holds(&area, 0, &[1, 2, 3]);
    });
}

/// A test in a process of its own: no other thread makes the pages of the fork shared or its own.
#[test]
fn parent_and_child_of_a_fork_gather_pages_of_their_own() {
    in_own_process(|| {
        everywhere(|space| {
            let mut area = GatherArea::new(space.clone(), 6).unwrap();
            let (memory, pages) = memory(space, 6);
            gather(&mut area, 0, &pages[..1]).unwrap();
            in_forked_child(|| {
                let gathered = gather(&mut area, 1, &pages[1..3]).unwrap();
                assert_holds(&area, 0, &[1, 2, 3]);
                let (_own, new) = self::memory(space, 2);
                let moved = gather(&mut area, 3, &new).unwrap();
                assert_holds(&area, 0, &[1, 2, 3, 1, 2]);
                // Pages of the parent's are shared with it, and so copied.
                gathered.copied == 2 && (moved.moved == 2 || !area.is_moving())
            });
            assert_numbers(&memory, &[0, 2, 3, 4, 5, 6]);
            assert_holds(&area, 0, &[1]);
            gather(&mut area, 1, &pages[1..]).unwrap();
            assert_holds(&area, 0, &[1, 2, 3, 4, 5, 6]);
        });
    });
}

#[test]
fn areas_that_end_leave_no_mapping_behind() {
    for space in guards_by_mapping().filter_map(space) {
        let play = || {
            let areas: Vec<_> = (0..8).map(|_| GatherArea::new(space.clone(), 4).unwrap()).collect();
            drop(areas);
            space.purge().unwrap();
            crate::common::mappings(space.platform())
        };
        let before = play();
        assert_eq!((0..10).map(|_| play()).max(), Some(before));
    }
}
