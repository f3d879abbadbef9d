//! Ten thousand guarded stacks, each written at its top. One has a name, which a report of its
//! overflow would show.
//!
//! `cargo run -p vmalloc-stacks --example named_stacks`

use std::error::Error;
use std::ptr::with_exposed_provenance_mut;
use vmalloc_stacks::{Stack, Stacks, StacksOptions};

/// The test that runs this example makes do with fewer.
const STACKS: usize = if cfg!(test) { 1_000 } else { 10_000 };

/// Returns the highest word of a stack, where the first frame of a coroutine would begin.
fn top_word(stack: &Stack) -> *mut usize {
    with_exposed_provenance_mut(stack.top() - size_of::<usize>())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let stacks = Stacks::open(&StacksOptions::new().stack_bytes(64 << 10).name("coroutines"))?;
    let mut all = vec![stacks.request().name("main loop").stack()?];
    for _ in 1..STACKS {
        all.push(stacks.stack()?);
    }
    for (nth, stack) in all.iter().enumerate() {
        // SAFETY: inside of the stack, which nothing else uses.
        unsafe { top_word(stack).write(nth) };
    }
    for (nth, stack) in all.iter().enumerate() {
        assert_eq!(stack.guard().end, stack.bottom());
        // SAFETY: as above, and written before.
        assert_eq!(unsafe { top_word(stack).read() }, nth);
    }
    // To the space the first page of its span is an area as well.
    let stats = stacks.stats();
    println!("{} areas, {} MiB of addresses", stats.busy_areas, stats.bytes(stats.busy_pages) >> 20);
    Ok(())
}
