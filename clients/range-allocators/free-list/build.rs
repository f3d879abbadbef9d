//! Takes the published free-list, and makes its list of ranges ours.

use published::Source;
use std::path::Path;

fn main() {
    let copy = published::for_build_script(Path::new(".."), "free-list-0.3.4").expect("the source is copied");
    Source::edit(&copy.join("src/lib.rs"), |source| {
        source
            .remove(&["page_list"])
            .unimport(&["NonZeroUsize"])
            .body("FreeList::allocate", "self.list.alloc(layout).ok_or(AllocError)")
            .body(
                "FreeList::allocate_outside_of",
                "self.list.alloc_outside_of(layout, range).ok_or(AllocError)",
            )
            .body("FreeList::allocate_with", "self.list.alloc_by(f).ok_or(AllocError)")
            .body("FreeList::free_space", "self.list.free_space()")
            .included()
    });
    // The file is ours, and the tests of the published one are run on it.
    Source::edit(&copy.join("src/page_list.rs"), |source| source.only(&["tests"]));
}
