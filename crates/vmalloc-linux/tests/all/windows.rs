//! Spans where a program needs them.

use crate::common::*;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ops::Range;
use vmalloc::{Platform, Request, Space};
use vmalloc_harness::{limit_addresses, narrow_addresses};
use vmalloc_linux::{Linux, LinuxOptions, ReserveError, SpaceOptions, open, page_bytes};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// Far from everything that a program has by itself.
const FAR: usize = 0x2000_0000_0000;

fn sized(bytes: usize) -> LinuxOptions {
    LinuxOptions::new().max_bytes(bytes).min_bytes(bytes).frame_bytes(0)
}

fn tried(options: LinuxOptions) -> Result<Linux, ReserveError> {
    Linux::reserve(options, &SpaceOptions::default())
}

fn span(linux: &Linux) -> Range<usize> {
    let start = linux.geometry().span.start() as usize * page_bytes();
    start..start + linux.reserved_bytes()
}

/// Maps a page at `addr`, and writes to it.
fn taken_page(addr: usize) -> *mut u8 {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
    let place = std::ptr::without_provenance_mut(addr);
    // SAFETY: nothing that is mapped is replaced.
    let page: *mut u8 = unsafe { mmap_anonymous(place, page_bytes(), access, flags) }.unwrap().cast();
    // SAFETY: it was just mapped for this test alone.
    unsafe { page.write(7) };
    page
}

#[test]
fn a_span_lies_at_the_address_asked_for_or_is_refused_and_nothing_changes() {
    in_own_process(|| {
        let at = |addr| sized(GIB).at(addr);
        let linux = tried(at(FAR)).unwrap();
        assert_eq!(span(&linux), FAR..FAR + GIB);
        map(&linux, pages(&linux, 0, 3));
        fill(&linux, pages(&linux, 0, 3), 1);
        drop(linux);

        let page = taken_page(FAR + GIB - page_bytes());
        let before = status_bytes("VmSize:");
        let refused = tried(at(FAR)).unwrap_err();
        let (bytes, largest) = (GIB, (GIB - page_bytes()) as u64);
        let (start, end) = (FAR as u64, (FAR + GIB) as u64);
        assert_eq!(refused, ReserveError::NoWindow { bytes, start, end, largest });
        assert_eq!(status_bytes("VmSize:"), before);
        // SAFETY: the page is this test's.
        assert_eq!(unsafe { page.read() }, 7);
        assert_eq!(span(&tried(sized(largest as usize).at(FAR)).unwrap()).start, FAR);
        let smaller = tried(at(FAR).min_bytes(MIB)).unwrap();
        assert_eq!((smaller.asked_bytes(), smaller.reserved_bytes()), (GIB, GIB / 2));
        let alone = LinuxOptions::new().frame_bytes(0).max_bytes(GIB).at(FAR);
        assert!(matches!(tried(alone), Err(ReserveError::NoWindow { .. })), "no smaller size is tried");
        // SAFETY: as above.
        unsafe { munmap(page.cast(), page_bytes()) }.unwrap();
    });
}

#[test]
fn spans_lie_near_an_address_each_next_to_the_one_before() {
    in_own_process(|| {
        let near = |within| sized(64 * MIB).near(FAR + 5, within).align(2 * MIB);
        let first = tried(near(GIB)).unwrap();
        assert_eq!(span(&first).start, FAR);
        let [above, below] = [(); 2].map(|()| tried(near(GIB)).unwrap());
        assert_eq!((span(&below).start, span(&above).start), (FAR - 64 * MIB, FAR + 64 * MIB));
        let refused = tried(near(100 * MIB)).unwrap_err();
        let ReserveError::NoWindow { bytes, start, end, largest } = refused else { panic!("{refused}") };
        assert_eq!(
            (bytes, start as usize, end as usize),
            (64 * MIB, FAR + 5 - 100 * MIB, FAR + 5 + 100 * MIB)
        );
        assert_eq!(largest as usize, 34 * MIB, "from the first aligned address on");
        let half = tried(near(100 * MIB).min_bytes(32 * MIB)).unwrap();
        assert_eq!(half.reserved_bytes(), 32 * MIB);
    });
}

/// Code of a space near the program is within reach of its calls.
#[test]
fn a_space_near_the_program_hands_out_what_is_near() {
    let program = a_space_near_the_program_hands_out_what_is_near as fn() as usize;
    let space = open(sized(256 * MIB).near(program, 2 * GIB), SpaceOptions::default()).unwrap();
    let addr = space.raw().alloc(&Request::new(100_000)).unwrap();
    assert!(addr.abs_diff(program) < 2 * GIB, "{addr:#x} is far from {program:#x}");
}

#[test]
fn a_span_lies_below_a_limit_as_high_as_can_be() {
    in_own_process(|| {
        let low = tried(sized(128 * MIB).below(1 << 32).align(MIB)).unwrap();
        assert_eq!(span(&low).end, 1 << 32);
        let next = tried(sized(128 * MIB).below(1 << 32)).unwrap();
        assert_eq!(span(&next).end, span(&low).start);
        let refused = tried(sized(128 * MIB).below(MIB)).unwrap_err();
        let ReserveError::NoWindow { largest, .. } = refused else { panic!("{refused}") };
        assert!((1..MIB as u64).contains(&largest), "{refused}");
        let aligned = tried(sized(MIB).align(1 << 36)).unwrap();
        assert_eq!(span(&aligned).start % (1 << 36), 0);
    });
}

#[test]
fn misfits_of_a_window_are_typed_errors() {
    let page = page_bytes();
    let not_aligned = |address, align| ReserveError::NotAligned { address, align };
    assert_eq!(tried(sized(MIB).align(0)).unwrap_err(), not_aligned(0, page));
    assert_eq!(tried(sized(MIB).align(3 * page)).unwrap_err(), not_aligned(0, 3 * page));
    assert_eq!(tried(sized(MIB).at(FAR + 1)).unwrap_err(), not_aligned(FAR + 1, page));
    assert_eq!(tried(sized(MIB).at(FAR + MIB).align(2 * MIB)).unwrap_err(), not_aligned(FAR + MIB, 2 * MIB));
    let above = ReserveError::LeastAboveMost { least: 2 * MIB, most: MIB };
    assert_eq!(tried(sized(MIB).min_bytes(2 * MIB)).unwrap_err(), above);
    assert_eq!(tried(sized(MIB).min_bytes(0)).unwrap_err(), ReserveError::ZeroSize);
    let top = usize::MAX & !(page - 1);
    let outside = [
        sized(MIB).at(0),
        sized(MIB).at(top),
        sized(MIB).at(FAR).below(FAR),
        sized(MIB).at(FAR).near(0, MIB),
        sized(MIB).below(0),
        sized(MIB).near(usize::MAX, 0),
        sized(MIB).near(FAR, 0),
        sized(MIB).align(1 << (usize::BITS - 1)),
    ];
    for options in outside {
        let refused = tried(options).map(|linux| span(&linux));
        assert!(
            matches!(refused, Err(ReserveError::NoWindow { largest: 0, .. })),
            "{options:?}: {refused:x?}"
        );
    }
}

/// The largest window that a refusal tells can be had.
#[test]
fn a_refusal_tells_the_largest_window_there_is() {
    in_own_process(|| {
        let refused = tried(sized(1 << 60)).unwrap_err();
        let ReserveError::NoRoom { bytes, largest, .. } = refused else { panic!("{refused}") };
        assert_eq!(bytes, 1 << 60);
        assert!(
            refused.to_string().starts_with("no room for 1073741824 GiB of addresses in a row"),
            "{refused}"
        );
        let most = largest as usize / GIB * GIB;
        assert_eq!(tried(sized(most)).unwrap().reserved_bytes(), most);
        let more = most + 2 * GIB;
        assert!(tried(sized(more)).is_err(), "it is the largest");
        let fewer = tried(LinuxOptions::new().max_bytes(more)).unwrap();
        assert_eq!((fewer.asked_bytes(), fewer.reserved_bytes()), (more, more / 2));
    });
}

#[test]
fn spaces_open_in_39_bits_of_addresses() {
    in_own_process(|| {
        let free = narrow_addresses(39);
        for _ in 0..4 {
            let spaces = [(); 3].map(|()| open(LinuxOptions::new(), SpaceOptions::default()).unwrap());
            for (nth, space) in spaces.iter().enumerate() {
                let bytes = space.platform().reserved_bytes();
                assert!((7 * GIB..=8 * GIB).contains(&bytes), "space {nth} of {bytes} bytes in {free}");
                space.raw().alloc(&Request::new(100 * MIB)).unwrap();
            }
        }
    });
}

/// A quarter of what the limit leaves, then of what the first space and its frames leave.
#[test]
fn spaces_open_under_a_limit_on_addresses() {
    in_own_process(|| {
        limit_addresses(256 * GIB as u64);
        let open = |_| Space::new(tried(LinuxOptions::new()).unwrap(), SpaceOptions::default()).unwrap();
        let spaces: Vec<_> = (0..4).map(open).collect();
        let sizes: Vec<_> = spaces.iter().map(|space| space.platform().reserved_bytes() / GIB).collect();
        assert!((60..=64).contains(&sizes[0]), "{sizes:?} GiB");
        assert!(sizes.windows(2).all(|two| two[1] < two[0] && two[1] * 3 > two[0]), "{sizes:?} GiB");
        for space in &spaces {
            space.raw().alloc(&Request::new(100 * MIB)).unwrap();
        }
    });
}
