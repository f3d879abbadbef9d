//! `realloc`: areas that grow and shrink, where they are and elsewhere.

use super::*;
use vmalloc_harness::resident;

const MIB: usize = 1 << 20;

fn realloc(space: &Space<Linux>, addr: usize, bytes: usize) -> usize {
    // SAFETY: the tests own the area, and go on with what is returned.
    unsafe { space.raw().realloc(addr, &Resize::new(bytes)) }.unwrap()
}

fn vmalloc(space: &Space<Linux>, bytes: usize) -> usize {
    space.raw().alloc(&Request::new(bytes)).unwrap()
}

/// No page is copied: the ones that are there are moved, and resident before and after.
#[test]
fn what_moves_is_not_copied() {
    in_both_modes(SpaceOptions::default(), |space| {
        let addr = vmalloc(space, 16 * MIB);
        let neighbour = vmalloc(space, page_bytes());
        fill_words(addr + 7 * page_bytes(), 2);
        let moved = realloc(space, addr, 32 * MIB);
        assert_words_of(moved + 7 * page_bytes(), 2, addr + 7 * page_bytes());
        assert_eq!(resident(moved..moved + 32 * MIB), 2);
        [moved, neighbour].iter().for_each(|addr| free(space, *addr));
    });
}

#[test]
fn what_shrinks_gives_its_memory_back() {
    // Other tests would change what is resident.
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            let addr = vmalloc(space, 16 * MIB);
            fill_words(addr, 16 * MIB / page_bytes());
            let (kept, before) = (MIB / page_bytes(), status_bytes("VmRSS:"));
            assert_eq!(realloc(space, addr, MIB), addr);
            assert!(
                before - status_bytes("VmRSS:") > 14 * MIB,
                "{before} bytes before, {} after",
                status_bytes("VmRSS:")
            );
            assert!((kept..16 * kept + 1).all(|page| is_trap(addr + page * page_bytes())));
            assert_words_of(addr, kept, addr);
            // Others may have what it gave back, and it can have it again.
            let other = vmalloc(space, MIB);
            assert!(other > addr && other < addr + 16 * MIB);
            free(space, other);
            space.purge().unwrap();
            assert_eq!(realloc(space, addr, 2 * MIB), addr);
            assert_words_of(addr, kept, addr);
            assert!(
                (kept..2 * kept).all(|page| get(addr + page * page_bytes()) == 0),
                "pages given back are other pages"
            );
            assert_eq!(realloc(space, addr, 1), addr);
            assert!(is_trap(addr + page_bytes()) && !is_trap(addr));
            free(space, addr);
        });
    });
}

/// Each time in one kernel mapping more, until a copy makes one of all. Of what they were in,
/// nothing is left.
#[test]
fn an_area_blocked_each_time_keeps_what_it_holds_in_few_mappings() {
    for space in spaces(options(), SpaceOptions::default()) {
        let (linux, guards) = (space.platform(), space.platform().guard_means());
        let mut left = Vec::new();
        for _ in 0..3 {
            let (mut addr, first) = (vmalloc(&space, 3 * page_bytes()), 3);
            fill_words(addr, first);
            let before = mappings(linux);
            let mut counts = Vec::new();
            for pages in (first..).step_by(2).take(50) {
                // Behind its guard page.
                let behind = addr + (pages + 1) * page_bytes();
                let page = Request::new(page_bytes()).guard(false).within(behind, behind + page_bytes());
                let neighbour = space.raw().reserve(&page).unwrap();
                let moved = realloc(&space, addr, (pages + 2) * page_bytes());
                assert_ne!(moved, addr);
                assert_words_of(moved, pages, addr);
                addr = moved;
                fill_words(addr, pages + 2);
                assert!(is_trap(addr + (pages + 2) * page_bytes()));
                // SAFETY: nothing uses the addresses any more.
                unsafe { space.raw().unreserve(neighbour) }.unwrap();
                space.purge().unwrap();
                counts.push(mappings(linux));
            }
            eprintln!("{guards:?}: {before} mappings, then {counts:?}");
            assert!(counts.iter().all(|count| *count <= before + 20), "{before} mappings, then {counts:?}");
            // Neighbours that the kernel joins or leaves apart as it likes are a few more or less.
            let (early, late) = (counts[..10].iter().max().unwrap(), counts[10..].iter().max().unwrap());
            assert!(*late <= early + 4, "{counts:?}");
            free(&space, addr);
            assert_all_whole(&space);
            left.push(mappings(linux));
        }
        eprintln!("{guards:?}: {left:?} mappings are left");
        assert!(left.iter().all(|count| *count <= 4), "{left:?}");
    }
}
