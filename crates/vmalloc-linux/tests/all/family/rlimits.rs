//! Limits on memory, reached for real: each in a process of its own.

use super::*;
use rustix::process::Resource;
use vmalloc::{AreaError, FrameSupply, Protection};

const MIB: usize = 1 << 20;

/// Runs `act` with at most `more` bytes above what is in use.
fn limited<R>(resource: Resource, more: usize, act: impl FnOnce() -> R) -> R {
    let used = status_bytes(if resource == Resource::As { "VmSize:" } else { "VmData:" });
    process::limited(resource, used + more, act)
}

/// Mapping frames needs as many addresses as they have, for a moment.
#[test]
fn without_addresses_frames_are_not_mapped_and_nothing_is_lost() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            let first = space.platform().take_run(4096, 1).unwrap();
            let frames: Vec<_> = (0..4096).map(|nth| first.plus(nth)).collect();
            let small = space.raw().map(&frames[..2], Protection::ReadWrite, None).unwrap();
            fill_words(small, 2);
            let shown = space.raw().alloc_shared(&Request::new(8 * MIB)).unwrap();
            limited(Resource::As, MIB, || {
                unbacked(space.raw().map(&frames, Protection::ReadWrite, None), PlatformFault::OutOfMemory);
                unbacked(space.raw().alloc_shared(&Request::new(16 * MIB)), PlatformFault::OutOfMemory);
                let refused = space.raw().map_shared(shown, 8 * MIB, Protection::ReadWrite, None);
                assert!(
                    matches!(refused, Err(AreaError::Platform(error)) if error.fault == PlatformFault::OutOfMemory)
                );
                space.verify().unwrap();
                // What fits is served, and what is given back is.
                let other = space.raw().map(&frames[..100], Protection::ReadWrite, None).unwrap();
                assert_words_of(other, 2, small);
                vunmap(space, other);
                space.purge().unwrap();
            });
            assert_words_of(small, 2, small);
            let all = space.raw().map(&frames, Protection::ReadWrite, None).unwrap();
            assert_words_of(all, 2, small);
            [small, all].iter().for_each(|addr| vunmap(space, *addr));
            free(space, shown);
            space.purge().unwrap();
            give(space.platform(), &frames);
        });
    });
}

/// Accessible private memory counts; frames are shared memory and do not.
#[test]
fn without_memory_areas_do_not_grow_and_nothing_is_lost() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            // All of the span counts from the start.
            if space.platform().guard_means() == GuardMeans::Userfault {
                return;
            }
            let area = space.raw().alloc(&Request::new(4 * MIB).zeroed()).unwrap();
            let blocked = space.raw().alloc(&Request::new(4 * MIB).zeroed()).unwrap();
            [area, blocked].iter().for_each(|addr| fill_words(*addr, 1024));
            limited(Resource::Data, 128 * MIB, || {
                for addr in [area, blocked] {
                    // SAFETY: the test owns the area.
                    let refused = unsafe { space.raw().realloc(addr, &Request::new(700 * MIB)) };
                    let Err(AreaError::Alloc(refused)) = refused else { panic!("{refused:?}") };
                    unbacked(Err::<(), _>(refused), PlatformFault::OutOfMemory);
                    assert_words_of(addr, 1024, addr);
                    assert!(is_trap(addr + 4 * MIB));
                    space.verify().unwrap();
                }
                unbacked(space.raw().alloc_exec(&Request::new(700 * MIB)), PlatformFault::OutOfMemory);
                let user = space.raw().alloc_shared(&Request::new(16 * MIB)).unwrap();
                fill_words(user, 4096);
                free(space, user);
                space.purge().unwrap();
            });
            // SAFETY: the test owns the area.
            let grown = unsafe { space.raw().realloc(area, &Request::new(200 * MIB)) }.unwrap();
            assert_words_of(grown, 1024, area);
            [grown, blocked].iter().for_each(|addr| free(space, *addr));
        });
    });
}

/// Putting windows back to what they were takes memory, too: until there is some they wait, and
/// trap no less than before.
#[test]
fn what_can_not_be_purged_for_want_of_memory_is_purged_later() {
    in_own_process(|| {
        in_both_modes(SpaceOptions::default(), |space| {
            let frames = take(space.platform(), FRAMES / 2);
            let addr = space.raw().map(&frames, Protection::ReadWrite, None).unwrap();
            fill_words(addr, 9);
            limited(Resource::Data, 4 * MIB, || {
                vunmap(space, addr);
                let purged = space.purge();
                eprintln!("{purged:?}");
                assert!(purged.is_ok() || space.stats().lazy_areas == 1);
                space.verify().unwrap();
            });
            space.purge().unwrap();
            assert!((0..9).all(|page| is_trap(addr + page * PAGE)));
            give(space.platform(), &frames);
        });
    });
}

/// Cached areas are evicted before growing is refused.
#[test]
fn what_is_cached_makes_room_for_what_grows() {
    in_own_process(|| {
        let options = options().guard_means(GuardMeans::Mprotect);
        let space = open(options, SpaceOptions::default().cache_bytes(SPAN)).unwrap();
        let area = alloc(&space, 256);
        let kept: Vec<_> = (0..200).map(|_| alloc(&space, 256)).collect();
        kept.iter().for_each(|memory| free(&space, *memory));
        assert_eq!(space.stats().cached_areas, 200);
        limited(Resource::Data, 32 * MIB, || {
            // SAFETY: the test owns the area.
            let grown = unsafe { space.raw().realloc(area, &Request::new(150 * MIB)) }.unwrap();
            free(&space, grown);
        });
        assert_all_whole(&space);
    });
}
