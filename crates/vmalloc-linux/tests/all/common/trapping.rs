//! Spaces whose frees trap at once, and their memory.

use super::{alloc, byte, free, is_trap, opened, page_bytes, spaces};
use std::sync::Arc;
use vmalloc::{Space, SpaceOptions};
use vmalloc_linux::{GuardMeans, Linux, LinuxOptions, open};

pub fn span() -> usize {
    page_bytes() << 18
}
/// Pages of an area that is opened, and not filled.
pub const LARGE: usize = 1500;

pub fn trapping() -> SpaceOptions {
    SpaceOptions::default().trap_on_free(true)
}

/// Runs `body` with a space of each kind of guards, and of none that keeps memory.
pub fn for_each_space(body: impl Fn(&Arc<Space<Linux>>)) {
    let options = LinuxOptions::new().max_bytes(span());
    let keeps_none = with_stash(LinuxOptions::new(), trapping().unmap_on_free());
    for space in spaces(options, trapping()).chain(keeps_none) {
        body(&space);
        assert_eq!(space.stats().late_frees, 0);
        space.verify().unwrap();
    }
}

/// With userfaultfd; `None` where the kernel lacks it.
pub fn with_userfault(options: LinuxOptions) -> Option<Arc<Space<Linux>>> {
    with_stash(options, trapping())
}

/// With userfaultfd, and a stash of as much as these options cache.
pub fn with_stash(options: LinuxOptions, space_options: SpaceOptions) -> Option<Arc<Space<Linux>>> {
    opened(open(options.max_bytes(span()).guard_means(GuardMeans::Userfault), space_options))
}

pub fn fill_area(addr: usize, pages: usize, value: u8) {
    // SAFETY: the test has allocated so many pages.
    (0..pages).for_each(|page| unsafe { byte(addr + page * page_bytes() + 7).write_volatile(value) });
}

pub fn assert_area(addr: usize, pages: usize, value: u8) {
    // SAFETY: as above.
    let at = |page: usize| unsafe { byte(addr + page * page_bytes() + 7).read_volatile() };
    assert!((0..pages).all(|page| at(page) == value), "{pages} pages of {value}");
}

/// Allocates areas, fills them, and frees them.
pub fn fill_stash(space: &Space<Linux>, areas: usize, pages: usize) {
    let areas: Vec<_> = (0..areas).map(|_| alloc(space, pages)).collect();
    areas.iter().for_each(|addr| fill_area(*addr, pages, 1));
    areas.iter().for_each(|addr| free(space, *addr));
}

pub fn traps(addr: usize, pages: usize) {
    (0..pages).for_each(|page| assert!(is_trap(addr + page * page_bytes()), "page {page} of {addr:#x}"));
}
