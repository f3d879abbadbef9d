//! Handles of a pool.

use crate::error::StackError;
use crate::options::StacksOptions;
use crate::pool::Pool;
use crate::recycle::{Age, Way};
use crate::request::StackRequest;
use crate::stack::Stack;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vmalloc::Stats;
use vmalloc_linux::LinuxOptions;

/// A handle of a pool of guarded stacks. A clone is another handle of that pool.
///
/// The pool lives as long as a handle or a stack of it. Any thread may make stacks, and any may
/// drop them.
///
/// ```
/// use vmalloc_stacks::{Stacks, StacksOptions};
///
/// let stacks = Stacks::open(&StacksOptions::new().stack_bytes(64 << 10))?;
/// let (one, large) = (stacks.stack()?, stacks.request().bytes(8 << 20).stack()?);
/// assert_eq!((one.len(), large.len()), (64 << 10, 8 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stacks(Arc<Pool>);

impl Stacks {
    /// The most addresses of a pool by default, in bytes: those of ten million stacks of 1 MiB, an
    /// eighth of what a program has.
    pub const SPAN_BYTES: usize = if usize::BITS >= 64 { 1 << 44 } else { 1 << 28 };

    /// Reserves an eighth of the addresses left, and of those that `RLIMIT_AS` leaves, up to
    /// [`SPAN_BYTES`](Self::SPAN_BYTES), and opens a pool on them: 64 GiB where a program has 39
    /// bits of addresses, 32 GiB under `ulimit -v` of 256 GiB. Where that is refused, it is a half,
    /// a quarter … of it.
    ///
    /// # Errors
    /// [`StackError`]; nothing is left behind.
    pub fn open(options: &StacksOptions) -> Result<Self, StackError> {
        Self::open_with(Self::usual_addresses(), options)
    }

    #[doc(hidden)]
    #[must_use]
    pub fn usual_addresses() -> LinuxOptions {
        LinuxOptions::new().max_bytes(Self::SPAN_BYTES).part_of_left(8)
    }

    /// Reserves addresses as `linux` says, those of all stacks and their guards, and opens a pool
    /// on them. It has no frames and no huge pages. Without a [drain
    /// thread](LinuxOptions::drain_thread), for programs that can't have threads, dropped stacks
    /// keep their memory until the program calls [`trim`](Self::trim).
    ///
    /// # Errors
    /// [`StackError`]; nothing is left behind.
    pub fn open_with(linux: LinuxOptions, options: &StacksOptions) -> Result<Self, StackError> {
        Pool::open(linux, options).map(Self)
    }

    /// Makes a stack of the pool's size. O(1), without a system call, when a dropped one waits on
    /// this CPU. Its bytes are zeros, or what an earlier owner left.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    #[inline]
    pub fn stack(&self) -> Result<Stack, StackError> {
        match self.0.reuse() {
            Some((pool, extent)) => Ok(Stack::new(pool, extent, Way::Pooled)),
            None => self.new_stack(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_stack(&self) -> Result<Stack, StackError> {
        let extent = self.0.alloc(self.0.shape.stack_bytes, None)?;
        Ok(Stack::new(Arc::clone(&self.0), extent, Way::Pooled))
    }

    /// Begins a request for one stack: of another size, with a name, or that can grow.
    pub fn request(&self) -> StackRequest<'_> {
        StackRequest::new(self)
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0
    }

    /// Gives the memory below the kept part of every cached stack back now. Otherwise the drain
    /// thread does that once a second.
    pub fn trim(&self) {
        self.0.shards.iter().for_each(|shard| self.0.trim(shard, Age::Fresh));
    }

    /// Gives all memory of cached stacks back now, and their addresses to the pool.
    pub fn clear(&self) {
        self.0.empty();
        // What can't be unmapped stays lazy, and is tried again.
        let _ = self.0.space.flush();
    }

    /// Returns the size of the stacks that [`stack`](Self::stack) makes.
    #[must_use]
    pub fn stack_bytes(&self) -> usize {
        self.0.shape.stack_bytes
    }

    /// Returns the counts of the space that the stacks lie in. To the space, stacks that wait on
    /// the CPUs are busy areas, and so is the first page of the span.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.space.stats()
    }
}

impl Clone for Stacks {
    fn clone(&self) -> Self {
        // Relaxed: this handle is there meanwhile.
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // AcqRel: the last handle comes after all makes through others, which are over.
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.close();
        }
    }
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks")
            .field("name", &self.0.name)
            .field("stack_bytes", &self.0.shape.stack_bytes)
            .field("span", &self.0.space.geometry().span)
            .finish_non_exhaustive()
    }
}
