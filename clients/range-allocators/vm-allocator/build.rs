//! Takes the published vm-allocator, and puts our tree in place of its own.

use published::Source;
use std::path::Path;

fn main() {
    let copy =
        published::for_build_script(Path::new(".."), "vm-allocator-0.1.4").expect("the source is copied");
    Source::edit(&copy.join("src/lib.rs"), |source| {
        source.remove(&["allocation_engine", "extern crate std"]).included()
    });
    // The one test of the original's tree that has something to test in ours.
    let tree = copy.join("src/allocation_engine/interval_tree.rs");
    Source::edit(&tree, |source| source.only(&["tests::test_integer_wrapping"]));
}
