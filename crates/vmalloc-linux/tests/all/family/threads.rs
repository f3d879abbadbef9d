//! Mappings made by one thread and ended by another, and many threads at once.

use super::*;
use std::sync::mpsc::sync_channel;
use vmalloc::{Protection, Request};

#[test]
fn another_thread_may_end_a_mapping() {
    in_both_modes(SpaceOptions::default().lazy_max_pages(64), |space| {
        let (send, receive) = sync_channel::<(usize, usize)>(50);
        let frames = take_scattered(space, 40);
        frames.iter().zip(1..).for_each(|(frame, value)| set(linear_addr(space, *frame), value));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (addr, len) in receive {
                    assert_filled(addr, len, 1);
                    if len % 2 == 0 { unmap_ram(space, addr, len) } else { vunmap(space, addr) }
                }
            });
            for round in 0..3000_usize {
                let len = 2 + round % 39;
                let frames = &frames[..len];
                let addr = match len % 2 {
                    0 => short(space).map(frames),
                    _ => space.raw().map(frames, Protection::ReadWrite, None),
                };
                send.send((addr.unwrap(), len)).unwrap();
            }
            drop(send);
        });
        space.purge().unwrap();
        give(space, &frames);
    });
}

/// One kind of mapping after the other, each checked through the linear map.
fn hammer(space: &Space<Linux>, thread: u8) {
    let frames = take_scattered(space, 66);
    for round in 0..150 * env::effort() {
        let len = 2 + (round * 5 + usize::from(thread)) % 65;
        let (part, value) = (&frames[..len], thread ^ round as u8);
        let addr = match round % 3 {
            0 => space.raw().map(part, Protection::ReadWrite, None).unwrap(),
            _ => short(space).map(part).unwrap(),
        };
        fill_from(addr, len, value);
        for (frame, nth) in part.iter().zip(0..) {
            assert_eq!(get(linear_addr(space, *frame)), value.wrapping_add(nth));
        }
        assert_filled(addr, len, value);
        if round % 3 == 0 {
            vunmap(space, addr);
        } else {
            unmap_ram(space, addr, len);
        }
        if round % 50 == 0 {
            let user = space.raw().alloc_shared(&Request::new(len * PAGE)).unwrap();
            let shown = space.raw().map_shared(user, len * PAGE, Protection::Read, None).unwrap();
            fill_from(user, len, value);
            assert_filled(shown, len, value);
            free(space, user);
            assert_filled(shown, len, value);
            vunmap(space, shown);
        }
        if round % 97 == thread.into() {
            space.purge().unwrap();
        }
    }
    space.purge().unwrap();
    give(space, &frames);
}

#[test]
fn four_threads_never_see_each_others_frames() {
    for config in [SpaceOptions::default(), SpaceOptions::default().unmap_on_free().lazy_max_pages(128)] {
        in_both_modes(config, |space| {
            std::thread::scope(|scope| {
                (0..4).for_each(|thread| _ = scope.spawn(move || hammer(space, thread * 60)));
            });
        });
    }
}
