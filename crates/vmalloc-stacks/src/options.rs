//! The options of a pool.

use vmalloc::{Tag, setters};

/// The default size of a stack. Only what is touched costs memory.
const STACK_BYTES: usize = 1 << 20;

/// The default size of the part that stays warm: what most coroutines use. One page costs a fault
/// of 1.3 µs when it has to be touched again, a thousand stacks of four warm pages 16 MiB.
const KEEP_BYTES: usize = 16 << 10;

/// The default budget of memory in cached stacks, that of a space.
const WARM_BYTES: usize = 64 << 20;

/// The options of a pool of stacks. Each has a setter of the same name.
///
/// ```
/// use vmalloc_stacks::StacksOptions;
///
/// let options = StacksOptions::new().stack_bytes(64 << 10).keep_bytes(8 << 10).name("parsers");
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct StacksOptions {
    pub(crate) stack_bytes: usize,
    pub(crate) keep_bytes: usize,
    pub(crate) warm_bytes: usize,
    pub(crate) align: usize,
    pub(crate) name: Tag,
}

impl Default for StacksOptions {
    fn default() -> Self {
        Self {
            stack_bytes: STACK_BYTES,
            keep_bytes: KEEP_BYTES,
            warm_bytes: WARM_BYTES,
            align: 1,
            name: Tag::new("stacks"),
        }
    }
}

impl StacksOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the pool, for reports of overflows. The first 31 bytes count.
    pub fn name(self, name: &str) -> Self {
        Self { name: Tag::new(name), ..self }
    }

    setters! {
        /// Sets the size of the stacks that [`Stacks::stack`](crate::Stacks::stack) makes, rounded
        /// up to pages. Default: 1 MiB.
        stack_bytes(bytes: usize) { stack_bytes = bytes }
        /// Sets how much of a dropped stack keeps its memory, from the top on, rounded up to pages.
        /// A stack that was used deeper gives the rest back. 0 gives everything back. Default: 16
        /// KiB.
        ///
        /// Smaller stacks of [another size](crate::StackRequest::bytes) keep as much less as they
        /// are smaller, in whole pages.
        keep_bytes(bytes: usize) { keep_bytes = bytes }
        /// Sets how much memory the dropped stacks of the pool may keep in all. Besides, each CPU
        /// keeps up to 64 stacks at hand. Default: 64 MiB.
        warm_bytes(bytes: usize) { warm_bytes = bytes }
        /// Sets the alignment of the bottom of each stack, a power of two: for programs that find
        /// the bottom from an address inside. Default: a page.
        align(bytes: usize) { align = bytes }
    }
}
