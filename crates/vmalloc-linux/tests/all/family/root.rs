//! The family in sub-spaces.

use super::*;
use vmalloc::Protection;
use vmalloc_subspaces::{LIMIT_BYTES, Root};

const MIB: usize = 1 << 20;

#[test]
fn a_limit_holds_for_every_kind() {
    for guards in GuardMeans::all() {
        let Ok(linux) = Linux::reserve(options().guard_means(guards), &SpaceOptions::default()) else {
            continue;
        };
        let root = Root::new(linux).unwrap();
        let small = Request::new(64 * MIB);
        let space = root.subspace("small", &small, Some(MIB), SpaceOptions::default()).unwrap();
        let frames = scattered_frames(root.platform(), 300);
        let of_limit = |error: AllocError| match error {
            AllocError::Unbacked(error) => assert_eq!(error.cause.call, LIMIT_BYTES),
            other => panic!("{other}"),
        };
        of_limit(space.raw().map(&frames, Protection::ReadWrite, None).unwrap_err());
        of_limit(short(&space).map(&frames).unwrap_err());
        of_limit(space.raw().alloc_shared(&Request::new(300 * PAGE)).unwrap_err());
        of_limit(space.raw().alloc_exec(&Request::new(300 * PAGE)).unwrap_err());
        let addr = space.raw().map(&frames[..200], Protection::ReadWrite, None).unwrap();
        fill_words(addr, 200);
        // SAFETY: nothing uses it any more.
        unsafe { space.raw().unmap(addr) }.unwrap();
        space.verify().unwrap();
        // Freed areas count no more when there is need.
        let exec = space.raw().alloc_exec(&Request::new(200 * PAGE)).unwrap();
        // SAFETY: as above.
        unsafe { space.raw().free(exec) }.unwrap();
    }
}
