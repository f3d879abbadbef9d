//! The family in sub-spaces.

use super::*;
use vmalloc::root::{ChildConfig, LIMIT_BYTES, Root, Site};
use vmalloc::{FrameSupply, Policy, Protection, Request};

const MIB: usize = 1 << 20;

fn take_of(linux: &Linux, count: usize) -> Vec<Frame> {
    let mut frames = vec![Frame(0); count];
    linux.take_frames(&mut frames).unwrap();
    frames.reverse();
    frames
}

#[test]
fn children_map_the_same_frames_at_addresses_of_their_own() {
    for guards in Guards::ALL {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let down = ChildConfig::default().config(Config::default().policy(Policy::Highest));
        let low = root.child("low", Site::lowest(64 * MIB), ChildConfig::default()).unwrap();
        let high = root.child("high", Site::highest(64 * MIB), down).unwrap();
        let frames = take_of(root.platform(), 20);
        let one = low.vmap(&frames, Protection::ReadWrite, Some("one")).unwrap();
        let other = high.vm_map_ram(&frames).unwrap();
        assert!(one < other && low.is_vmalloc_addr(one) && high.is_vmalloc_addr(other));
        fill_from(one, 20, 1);
        assert_filled(other, 20, 1);
        let user = low.vmalloc_user(&Request::new(3 * PAGE)).unwrap();
        let shown = low.remap_vmalloc_range(user, PAGE, Protection::Read, None).unwrap();
        set(user, 5);
        assert_eq!(get(shown), 5);
        // SAFETY: nothing uses them any more.
        unsafe {
            high.vm_unmap_ram(other, 20).unwrap();
            low.vunmap(one).unwrap();
            low.vfree(user).unwrap();
            low.vunmap(shown).unwrap();
        }
        low.purge().unwrap();
        high.purge().unwrap();
        for addr in [one, other, user, shown] {
            assert_eq!(peek(root.platform(), (addr / PAGE) as u64), None);
        }
        assert!(root.children().all(|child| child.used_bytes == 0));
        // SAFETY: nothing leads to them any more.
        unsafe { root.platform().give_frames(&frames) };
        take_of(root.platform(), FRAMES);
    }
}

#[test]
fn a_limit_holds_for_every_kind() {
    for guards in Guards::ALL {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let small = ChildConfig::default().limit(MIB);
        let space = root.child("small", Site::lowest(64 * MIB), small).unwrap();
        let frames = take_of(root.platform(), 300);
        let of_limit = |error: AllocError| match error {
            AllocError::Unbacked(error) => assert_eq!(error.cause.call, LIMIT_BYTES),
            other => panic!("{other}"),
        };
        of_limit(space.vmap(&frames, Protection::ReadWrite, None).unwrap_err());
        of_limit(space.vm_map_ram(&frames).unwrap_err());
        of_limit(space.vmalloc_user(&Request::new(300 * PAGE)).unwrap_err());
        of_limit(space.vmalloc_exec(&Request::new(300 * PAGE)).unwrap_err());
        let addr = space.vmap(&frames[..200], Protection::ReadWrite, None).unwrap();
        fill_from(addr, 200, 1);
        // SAFETY: nothing uses it any more.
        unsafe { space.vunmap(addr) }.unwrap();
        space.verify().unwrap();
        // What was freed counts no more when there is need.
        let exec = space.vmalloc_exec(&Request::new(200 * PAGE)).unwrap();
        // SAFETY: as above.
        unsafe { space.vfree(exec) }.unwrap();
    }
}

#[test]
fn what_a_child_has_mapped_ends_with_it() {
    for guards in Guards::ALL {
        let Ok(linux) = Linux::reserve(options(guards)) else { continue };
        let root = Root::new(linux).unwrap();
        let frames = take_of(root.platform(), 3);
        let space = root.child("first", Site::lowest(64 * MIB), ChildConfig::default()).unwrap();
        let addr = space.vmap(&frames, Protection::ReadWrite, None).unwrap();
        fill_from(addr, 3, 1);
        drop(space);
        assert_eq!(peek(root.platform(), (addr / PAGE) as u64), None);
        let next = root.child("next", Site::lowest(64 * MIB), ChildConfig::default()).unwrap();
        assert!(next.zeroed_buffer(MIB).unwrap().iter().all(|byte| *byte == 0));
    }
}
