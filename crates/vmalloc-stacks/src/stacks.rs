//! Handles of a pool.

use crate::error::{OpenError, StackError};
use crate::growable::Growable;
use crate::hold::Hold;
use crate::pool::Pool;
use crate::recycle::{Age, Way};
use crate::settings::Settings;
use crate::stack::Stack;
use std::fmt;
use std::sync::atomic::Ordering;
use vmalloc::Stats;

/// A handle of a pool of guarded stacks. A clone is another handle of that pool.
///
/// The pool lives as long as a handle or a stack of it. Any thread may make stacks, and any may
/// drop them.
///
/// ```
/// use vmalloc_stacks::{Settings, Stacks};
///
/// let stacks = Stacks::open(&Settings::new().stack_bytes(64 << 10))?;
/// let (one, large) = (stacks.stack()?, stacks.stack_of(8 << 20)?);
/// assert_eq!((one.size(), large.size()), (64 << 10, 8 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stacks(Hold);

impl Stacks {
    /// Reserves addresses, and opens a pool on them.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        Pool::open(settings).map(Self)
    }

    /// Makes a stack of the pool's size. O(1), without a system call, when a dropped one waits on
    /// this CPU. Its bytes are zeros, or what an earlier owner left.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    #[inline]
    pub fn stack(&self) -> Result<Stack, StackError> {
        match self.0.reuse() {
            Some((hold, extent)) => Ok(Stack::new(hold, extent, Way::Pooled)),
            None => self.new_stack(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_stack(&self) -> Result<Stack, StackError> {
        let extent = self.0.alloc(self.0.shape.stack_bytes, None)?;
        Ok(Stack::new(self.0.another(), extent, Way::Pooled))
    }

    /// Makes a stack of `bytes`, rounded up to pages. The space has it, so that no call is made
    /// when one of the size waits in its cache. Threads that do this share a count. A program with
    /// many stacks of another size opens another pool.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn stack_of(&self, bytes: usize) -> Result<Stack, StackError> {
        let bytes = self.0.shape.checked(bytes)?;
        if bytes == self.0.shape.stack_bytes {
            return self.stack();
        }
        let extent = self.0.alloc(bytes, None)?;
        Ok(Stack::new(self.0.another(), extent, Way::Single))
    }

    /// Makes a stack of `bytes`, rounded up to pages, with a name for reports of overflows. The
    /// first 31 bytes of the name count. Costs as much as an area with a tag: about a microsecond.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn named(&self, name: &str, bytes: usize) -> Result<Stack, StackError> {
        let bytes = self.0.shape.checked(bytes)?;
        let extent = self.0.alloc(bytes, Some(name))?;
        Ok(Stack::new(self.0.another(), extent, Way::Single))
    }

    /// Makes a stack that begins with `first` bytes and can grow to `most`. Both are rounded up to
    /// pages. See [`Growable`].
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn growable(&self, first: usize, most: usize) -> Result<Growable, StackError> {
        Growable::new(&self.0, None, first, most)
    }

    /// Makes a [growable](Self::growable) stack with a name for reports of overflows.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn growable_named(&self, name: &str, first: usize, most: usize) -> Result<Growable, StackError> {
        Growable::new(&self.0, Some(name), first, most)
    }

    /// Reserves the addresses of a stack that can grow to `most` bytes, and has no memory yet: no
    /// byte of it can be touched before the first [`grow`](Growable::grow). No system call.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn reserved(&self, most: usize) -> Result<Growable, StackError> {
        Growable::reserved(&self.0, None, most)
    }

    /// Gives the memory below the kept part of every cached stack back now. Otherwise a thread of
    /// the program does that once a second.
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
        Self(self.0.another())
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
