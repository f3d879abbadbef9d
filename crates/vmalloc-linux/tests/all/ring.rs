//! Ring buffers: bytes over the end, sizes, and the memory that comes back.

use std::sync::Arc;
use vmalloc::{AllocError, AreaError, Space, SpaceOptions};
use vmalloc_linux::{Linux, LinuxOptions, Ring, open, page_bytes};

fn space(frame_bytes: usize) -> Arc<Space<Linux>> {
    open(LinuxOptions::new().max_bytes(1 << 26).frame_bytes(frame_bytes), SpaceOptions::default())
        .expect("a space")
}

#[test]
fn each_byte_is_at_two_addresses() {
    let mut ring = Ring::new(space(1 << 20), 5 * page_bytes()).expect("a ring");
    let len = ring.len();
    for at in [0, 1, len - 1, len, 3 * len + 7, usize::MAX] {
        let content: Vec<u8> = (0..len).map(|nth| (nth + at % 251) as u8).collect();
        ring.get_mut(at, len).expect("all of it").copy_from_slice(&content);
        for cut in [0, 1, page_bytes(), len - 1] {
            let shown = ring.get(at % len + cut, len - cut).expect("the rest");
            assert_eq!(shown, &content[cut..], "{at} {cut}");
        }
        let first = ring.get(0, 1).expect("the first")[0];
        // SAFETY: of the ring, which is borrowed by nothing.
        assert_eq!(unsafe { ring.as_ptr().add(len).read() }, first);
    }
}

#[test]
fn a_byte_is_read_as_it_was_written_last_at_its_other_address() {
    // The compiler must not keep a byte that it has written through one address, or read through
    // the other, for what is there now.
    let mut ring = Ring::new(space(1 << 20), page_bytes()).expect("a ring");
    let len = ring.len();
    let mut sum = 0_u64;
    for round in 0..1000 {
        ring.get_mut(0, 1).expect("the first")[0] = round as u8;
        let over = ring.get(len - 1, 2).expect("the last and the first")[1];
        assert_eq!(over, round as u8);
        ring.get_mut(len - 1, 2).expect("the last and the first")[1] = !(round as u8);
        sum += u64::from(ring.get(0, 1).expect("the first")[0]);
    }
    assert_eq!(sum, (0..1000).map(|round| u64::from(!(round as u8))).sum());
}

#[test]
fn a_ring_gives_its_frames_and_addresses_back() {
    let space = space(1 << 20);
    for _ in 0..3 {
        let ring = Ring::new(Arc::clone(&space), 1 << 20).expect("all frames");
        let refused = Ring::new(Arc::clone(&space), 1 << 20).expect_err("none is left");
        assert!(matches!(refused, AreaError::Alloc(AllocError::Unbacked(_))), "{refused}");
        assert_eq!(space.stats().busy_areas, 1);
        drop(ring);
    }
    space.purge().expect("it is unmapped");
    assert_eq!((space.stats().busy_areas, space.verify()), (0, Ok(())));
}

#[test]
fn sizes_and_parts_that_cannot_be_are_refused_and_change_nothing() {
    let space = space(1 << 20);
    for bytes in [0, usize::MAX, usize::MAX / 2, usize::MAX >> 4] {
        assert!(Ring::new(&*space, bytes).is_err(), "{bytes}");
    }
    assert_eq!(space.stats().busy_areas, 0);
    let mut ring = Ring::new(&*space, 1).expect("a ring");
    let len = ring.len();
    assert_eq!((len, ring.get(0, len + 1), ring.get(len, 0)), (page_bytes(), None, Some(&[][..])));
    assert_eq!(ring.get_mut(7, usize::MAX), None);
}

/// A ring may go to another thread.
const fn is_send<T: Send>() {}
const _: () = is_send::<Ring<Arc<Space<Linux>>>>();
