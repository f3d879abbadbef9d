//! The family in sub-spaces.

use super::*;
use vmalloc::{FrameSupply, Policy, Protection, Request};
use vmalloc_subspaces::{LIMIT_BYTES, Placement, Root, SubspaceConfig};

const MIB: usize = 1 << 20;

fn take_of(linux: &Linux, count: usize) -> Vec<Frame> {
    let mut frames = vec![Frame(0); count];
    linux.take_frames(&mut frames).unwrap();
    frames.reverse();
    frames
}

#[test]
fn children_map_the_same_frames_at_addresses_of_their_own() {
    for guards in Guards::all() {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let down = SubspaceConfig::default().config(Config::default().policy(Policy::Highest));
        let low = root.subspace("low", Placement::lowest(64 * MIB), SubspaceConfig::default()).unwrap();
        let high = root.subspace("high", Placement::highest(64 * MIB), down).unwrap();
        let frames = take_of(root.platform(), 20);
        let one = low.raw().map(&frames, Protection::ReadWrite, Some("one")).unwrap();
        let other = high.raw().map_short(&frames).unwrap();
        assert!(one < other && low.contains(one) && high.contains(other));
        fill_from(one, 20, 1);
        assert_filled(other, 20, 1);
        let user = low.raw().alloc_shared(&Request::new(3 * PAGE)).unwrap();
        let shown = low.raw().map_shared(user, PAGE, Protection::Read, None).unwrap();
        set(user, 5);
        assert_eq!(get(shown), 5);
        // SAFETY: nothing uses them any more.
        unsafe {
            high.raw().unmap_short(other, 20).unwrap();
            low.raw().unmap(one).unwrap();
            low.raw().free(user).unwrap();
            low.raw().unmap(shown).unwrap();
        }
        low.purge().unwrap();
        high.purge().unwrap();
        for addr in [one, other, user, shown] {
            assert_eq!(peek(root.platform(), (addr / PAGE) as u64), None);
        }
        assert!(root.subspaces().all(|part| part.used_bytes == 0));
        // SAFETY: nothing leads to them any more.
        unsafe { root.platform().give_frames(&frames) };
        take_of(root.platform(), FRAMES);
    }
}

#[test]
fn a_limit_holds_for_every_kind() {
    for guards in Guards::all() {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let small = SubspaceConfig::default().limit_bytes(MIB);
        let space = root.subspace("small", Placement::lowest(64 * MIB), small).unwrap();
        let frames = take_of(root.platform(), 300);
        let of_limit = |error: AllocError| match error {
            AllocError::Unbacked(error) => assert_eq!(error.cause.call, LIMIT_BYTES),
            other => panic!("{other}"),
        };
        of_limit(space.raw().map(&frames, Protection::ReadWrite, None).unwrap_err());
        of_limit(space.raw().map_short(&frames).unwrap_err());
        of_limit(space.raw().alloc_shared(&Request::new(300 * PAGE)).unwrap_err());
        of_limit(space.raw().alloc_exec(&Request::new(300 * PAGE)).unwrap_err());
        let addr = space.raw().map(&frames[..200], Protection::ReadWrite, None).unwrap();
        fill_from(addr, 200, 1);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().unmap(addr) }.unwrap();
        space.verify().unwrap();
        // Freed areas count no more when there is need.
        let exec = space.raw().alloc_exec(&Request::new(200 * PAGE)).unwrap();
        // SAFETY: as above.
        unsafe { space.raw().free(exec) }.unwrap();
    }
}

#[test]
fn what_a_child_has_mapped_ends_with_it() {
    for guards in Guards::all() {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let frames = take_of(root.platform(), 3);
        let space = root.subspace("first", Placement::lowest(64 * MIB), SubspaceConfig::default()).unwrap();
        let addr = space.raw().map(&frames, Protection::ReadWrite, None).unwrap();
        fill_from(addr, 3, 1);
        drop(space);
        assert_eq!(peek(root.platform(), (addr / PAGE) as u64), None);
        let next = root.subspace("next", Placement::lowest(64 * MIB), SubspaceConfig::default()).unwrap();
        assert!(next.zeroed_buffer(MIB).unwrap().iter().all(|byte| *byte == 0));
    }
}
