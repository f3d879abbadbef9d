//! Reading whatever is mapped.

use crate::mappings::support::{
    PAGE, START, devices, everywhere, everywhere_in, fill, finish, free, free_sparse, give, pages, take,
    unmap_ram, vunmap, with_blocks,
};
use vmalloc::{Config, Protection, Request, Space};
use vmalloc_sim::{Direct, Sim};

const RW: Protection = Protection::ReadWrite;

/// Returns the words of `count` pages from `addr` on, 0 for what is not mapped, and how many bytes
/// are.
fn read(space: &Space<Sim>, addr: usize, count: usize) -> (Vec<u64>, usize) {
    let mut bytes = vec![0xee; count * PAGE];
    let copied = space.read(addr, &mut bytes);
    let words = bytes.chunks_exact(PAGE).map(|page| {
        let words: Vec<u64> =
            page.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect();
        assert!(words.iter().all(|word| *word == words[0]), "a page has one word");
        words[0]
    });
    (words.collect(), copied)
}

fn nothing(space: &Space<Sim>, addr: usize, count: usize) {
    assert_eq!(read(space, addr, count), (vec![0; count], 0));
}

#[test]
fn read_covers_every_kind_and_guards_are_zeros() {
    with_blocks(|space| {
        let frames = take(space, 70);
        let areas = [
            (space.raw().alloc(&Request::new(3 * PAGE)).expect("room"), 3),
            (space.raw().alloc_shared(&Request::new(2 * PAGE)).expect("room"), 2),
            (space.raw().alloc_exec(&Request::new(2 * PAGE)).expect("room"), 2),
            (space.raw().map(&frames[..4], RW, None).expect("room"), 4),
        ];
        for (addr, count) in areas {
            let mut words = fill(space, addr, count);
            words.push(0);
            assert_eq!(read(space, addr, count + 1), (words, count * PAGE));
        }
        let ram = space.raw().map_short(&frames).expect("room");
        let words = fill(space, ram, 70);
        assert_eq!(read(space, ram, 70), (words, 70 * PAGE));
        unmap_ram(space, ram, 70);
        areas[..3].iter().for_each(|&(addr, _)| free(space, addr));
        vunmap(space, areas[3].0);
        space.purge().expect("nothing fails");
        give(space, &frames);
    });
}

#[test]
fn unmapped_addresses_read_as_zeros() {
    everywhere(|space| {
        nothing(space, START as usize * PAGE, 4);
        nothing(space, (START as usize - 2) * PAGE, 4);
        nothing(space, 0, 4);
        nothing(space, (space.geometry().span.end() as usize - 2) * PAGE, 4);
        let addr = space.raw().alloc(&Request::new(3 * PAGE)).expect("room");
        fill(space, addr, 3);
        free(space, addr);
        nothing(space, addr, 4);
        space.purge().expect("nothing fails");
        nothing(space, addr, 4);
    });
}

#[test]
fn read_stops_at_the_last_address() {
    everywhere(|space| {
        for addr in [usize::MAX, usize::MAX - 1, usize::MAX - PAGE, usize::MAX - 3 * PAGE + 1] {
            let mut bytes = [7; 100];
            assert_eq!((space.read(addr, &mut bytes), bytes), (0, [0; 100]));
            assert_eq!(space.read(addr, &mut []), 0);
        }
    });
}

#[test]
fn read_skips_devices_and_reservations() {
    everywhere(|space| {
        let device = space.raw().map_device(&devices(2), RW, None).expect("room");
        fill(space, device, 2);
        nothing(space, device, 3);
        let reserved = space.raw().reserve(&Request::new(2 * PAGE)).expect("room");
        nothing(space, reserved, 3);
        vunmap(space, device);
        // SAFETY: nothing uses the addresses any more.
        unsafe { space.raw().unreserve(reserved) }.expect("reserved");
    });
}

#[test]
fn read_copies_the_mapped_pages_of_sparse_areas() {
    everywhere(|space| {
        let frames = take(space, 3);
        let addr = space.raw().alloc_sparse(&Request::new(8 * PAGE)).expect("room");
        for (nth, frame) in [0, 3, 7].into_iter().zip(&frames) {
            // SAFETY: nothing else maps there.
            unsafe { space.raw().map_pages(addr + nth * PAGE, &[*frame], RW) }.expect("room");
        }
        let words = [0, 3, 7].map(|nth| fill(space, addr + nth * PAGE, 1)[0]);
        let expected = vec![words[0], 0, 0, words[1], 0, 0, 0, words[2], 0];
        assert_eq!(read(space, addr, 9), (expected, 3 * PAGE));
        free_sparse(space, addr);
        space.purge().expect("nothing fails");
        give(space, &frames);
    });
}

#[test]
fn a_read_goes_across_areas() {
    everywhere_in(64, |space| {
        let end = space.geometry().span.end() as usize * PAGE;
        let mut expected = vec![0; 64];
        let first = START as usize * PAGE;
        let areas: Vec<usize> =
            (1..5).map(|count| space.raw().alloc(&Request::new(count * PAGE)).expect("room")).collect();
        for (&addr, count) in areas.iter().zip(1..5) {
            let nth = (addr - first) / PAGE;
            expected[nth..nth + count].copy_from_slice(&fill(space, addr, count));
        }
        assert_eq!(read(space, first, 64), (expected.clone(), 10 * PAGE));
        let (from, to) = (areas[1] - first, areas[3] - first + PAGE);
        let mapped = expected[from / PAGE..to / PAGE].iter().filter(|word| **word != 0).count();
        let (words, copied) = read(space, areas[1], (to - from) / PAGE);
        assert_eq!((&words[..], copied), (&expected[from / PAGE..to / PAGE], mapped * PAGE));
        assert_eq!(read(space, end - PAGE, 3).1, usize::from(expected[63] != 0) * PAGE);
        areas.into_iter().for_each(|addr| free(space, addr));
    });
}

#[test]
fn reads_may_begin_and_end_anywhere() {
    Sim::run_on(0);
    let space = Space::new(Direct::new(256, |options| options.cpus(2)), Config::default()).expect("a space");
    let addr = space.raw().alloc(&vmalloc::Request::new(3 * PAGE)).expect("room");
    let memory = std::ptr::with_exposed_provenance_mut::<u8>(addr);
    for nth in 0..3 * PAGE {
        // SAFETY: the memory is the test's.
        unsafe { memory.add(nth).write((nth % 251) as u8 + 1) };
    }
    for (from, count) in
        [(0, 1), (1, 7), (PAGE - 1, 2), (PAGE - 3, 2 * PAGE), (5, 3 * PAGE), (3 * PAGE - 1, 9), (3 * PAGE, 9)]
    {
        let mut bytes = vec![0xee; count];
        let mapped = count.min(3 * PAGE - from);
        assert_eq!(space.read(addr + from, &mut bytes), mapped, "{count} bytes from {from}");
        let expected = (from..from + mapped).map(|nth| (nth % 251) as u8 + 1);
        assert!(bytes.into_iter().eq(expected.chain(std::iter::repeat_n(0, count - mapped))));
    }
    free(&space, addr);
    finish(&space);
}

#[test]
fn live_slots_are_read_and_those_around_them_are_zeros() {
    with_blocks(|space| {
        let frames = take(space, 2);
        let addr = space.raw().map_short(&frames).expect("room");
        let words = fill(space, addr, 2);
        assert_eq!(read(space, addr, 4), (vec![words[0], words[1], 0, 0], 2 * PAGE));
        unmap_ram(space, addr, 2);
        give(space, &frames);
    });
}

/// Returned slots are not the owner's any more: their frames may have another owner.
#[test]
fn returned_slots_are_not_read() {
    with_blocks(|space| {
        let frames = take(space, 4);
        // Not one behind the other: such are read where they always are, and not through the space.
        let (stay, go) = ([frames[0], frames[2]], [frames[3], frames[1]]);
        let stays = space.raw().map_short(&stay).expect("room");
        let goes = space.raw().map_short(&go).expect("room");
        let words = fill(space, stays, 2);
        fill(space, goes, 2);
        unmap_ram(space, goes, 2);
        give(space, &go);
        let others = take(space, 2);
        nothing(space, goes, 2);
        assert_eq!(read(space, stays, 2), (words, 2 * PAGE));
        unmap_ram(space, stays, 2);
        give(space, &[&others[..], &stay].concat());
    });
}

#[test]
fn read_is_the_same_on_every_cpu() {
    everywhere(|space| {
        let frames = take(space, 2);
        let addr = space.raw().map(&frames, RW, None).expect("room");
        let words = fill(space, addr, 2);
        Sim::run_on(1);
        assert_eq!(read(space, addr, 2), (words, 2 * PAGE));
        space.platform().prefetch(0, pages(addr, 2));
        vunmap(space, addr);
        nothing(space, addr, 2);
        give(space, &frames);
    });
}
