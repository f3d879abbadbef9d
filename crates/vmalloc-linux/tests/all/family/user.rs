//! `vmalloc_user`: memory that is shown at several addresses.

use super::*;
use vmalloc::Protection;

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
        fill_words(rest, FRAMES - 1);
        assert_words_of(rest, FRAMES - 1, rest);
        // Other memory is not of the supply, and what is there can still be shown again.
        let plain = alloc(space, 256);
        let again = space.raw().map_shared(rest, (FRAMES - 1) * PAGE, Protection::ReadWrite, None);
        let shown = again.unwrap();
        assert_words_of(shown, FRAMES - 1, rest);
        free(space, plain);
        vunmap(space, shown);
        free(space, rest);
        space.purge().unwrap();
        let again = space.raw().alloc_shared(&Request::new((FRAMES - 1) * PAGE)).unwrap();
        [first, again].iter().for_each(|addr| free(space, *addr));
    });
}
