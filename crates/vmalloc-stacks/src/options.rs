//! The options of a pool.

use vmalloc::{Tag, setters};

/// The default size of a stack. Only what is touched costs memory.
const STACK_BYTES: usize = 1 << 20;

/// The default size of the part that stays warm: what most coroutines use. One page costs a fault
/// of 1.3 µs when it has to be touched again, a thousand stacks of four warm pages 16 MiB.
const KEEP_BYTES: usize = 16 << 10;

/// The default budget of memory in cached stacks, that of a space.
const WARM_BYTES: usize = 64 << 20;

/// The default size of the pool's addresses: ten million stacks of 1 MiB, an eighth of what a
/// program has.
const SPAN_BYTES: usize = if usize::BITS >= 64 { 1 << 44 } else { 1 << 28 };

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
    pub(crate) span_bytes: usize,
    pub(crate) align: usize,
    pub(crate) name: Tag,
    pub(crate) has_threads: bool,
}

impl Default for StacksOptions {
    fn default() -> Self {
        Self {
            stack_bytes: STACK_BYTES,
            keep_bytes: KEEP_BYTES,
            warm_bytes: WARM_BYTES,
            span_bytes: SPAN_BYTES,
            align: 1,
            name: Tag::new("stacks"),
            has_threads: true,
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
        /// Sets how many bytes of addresses the pool reserves: those of all stacks and their
        /// guards. Where that is refused, it takes a half, a quarter … of it. Default: 16 TiB.
        span_bytes(bytes: usize) { span_bytes = bytes }
        /// Sets the alignment of the bottom of each stack, a power of two: for programs that find
        /// the bottom from an address inside. Default: a page.
        align(bytes: usize) { align = bytes }
        /// Sets whether the pool's space uses the [drain
        /// thread](vmalloc_linux::LinuxOptions::drain_thread) of the program. Off for programs that
        /// can't have threads: dropped stacks keep their memory then until the program calls
        /// [`Stacks::trim`](crate::Stacks::trim). On by default.
        threads(threads: bool) { has_threads = threads }
    }
}
