//! `vmalloc_user`: memory that is shown at several addresses.

use super::*;
use vmalloc::{AreaError, Protection, Request};

fn remap(space: &Space<Linux>, addr: usize, pages: usize) -> Result<usize, AreaError> {
    space.raw().map_shared(addr, pages * PAGE, Protection::ReadWrite, None)
}

#[test]
fn frames_run_out_with_a_typed_error_and_nothing_is_lost() {
    in_both_modes(SpaceOptions::default(), |space| {
        let first = space.raw().alloc_shared(&Request::new(PAGE)).unwrap();
        let error =
            unbacked(space.raw().alloc_shared(&Request::new(FRAMES * PAGE)), PlatformFault::OutOfMemory);
        assert_eq!(error.size, (FRAMES as u64 + 1) << 12);
        assert!(error.to_string().contains("out of memory"), "{error}");
        let rest = space.raw().alloc_shared(&Request::new((FRAMES - 1) * PAGE)).unwrap();
        unbacked(space.raw().alloc_shared(&Request::new(1)), PlatformFault::OutOfMemory);
        fill_from(rest, FRAMES - 1, 1);
        assert_filled(rest, FRAMES - 1, 1);
        // Other memory is not of the supply, and what is there can still be shown again.
        let (plain, shown) = (
            space.raw().alloc(&vmalloc::Request::new(1 << 20)).unwrap(),
            remap(space, rest, FRAMES - 1).unwrap(),
        );
        assert_filled(shown, FRAMES - 1, 1);
        free(space, plain);
        vunmap(space, shown);
        free(space, rest);
        space.purge().unwrap();
        let again = space.raw().alloc_shared(&Request::new((FRAMES - 1) * PAGE)).unwrap();
        [first, again].iter().for_each(|addr| free(space, *addr));
    });
}
