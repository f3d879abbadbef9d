//! Stacks that grow.
//!
//! ```text
//!   guard │ addresses alone                    │ committed             │ guard
//!         bottom of the reservation       bottom()                    top()
//!                                    ◄── grow(to)
//! ```

use crate::error::StackError;
use crate::pool::Pool;
use crate::shape::Extent;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc::{AreaError, Platform, Tag};
use vmalloc_linux::fork;

/// The bits of the size that are set while a thread commits or decommits pages: sizes are multiples
/// of the page, of 4 KiB or more. They tell the [generation](fork::generation) of its process: the
/// child of a fork has none of its parent's other threads. A bound, and no page size.
const MARK: usize = 0xfff;

/// Returns the mark of this process: never 0.
fn own_mark() -> usize {
    fork::generation() as usize % MARK + 1
}

/// An owned stack that reserves addresses for its largest size, and has memory behind the top part.
/// Below that part every access traps, down to the guard page.
///
/// It grows when its owner says so, or a [`Grower`] that code on the stack has. It never grows by
/// itself: a signal handler would have to commit pages, and committing takes locks that the
/// interrupted thread may hold.
///
/// ```
/// use vmalloc_stacks::{Stacks, StacksOptions};
///
/// let stacks = Stacks::open(&StacksOptions::new())?;
/// let stack = stacks.request().bytes(16 << 10).growable(64 << 20)?;
/// stack.grow(1 << 20)?;
/// assert_eq!(stack.len(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growable(Arc<Shared>);

/// The right to grow a [`Growable`] stack, for the code that runs on it. It keeps the stack's
/// memory, too.
#[derive(Clone)]
pub struct Grower(Arc<Shared>);

/// The area of a growable stack.
struct Shared {
    pool: Arc<Pool>,
    reserved: Extent,
    /// The bytes that have memory behind them, and a [`MARK`].
    committed: AtomicUsize,
}

impl Growable {
    /// Reserves the addresses of a stack that may grow to `most` bytes, and commits `first` of
    /// them.
    pub(crate) fn new(
        pool: &Arc<Pool>,
        name: Option<Tag>,
        first: usize,
        most: usize,
    ) -> Result<Self, StackError> {
        let most = pool.shape.checked(most)?;
        let request = pool.request(most, name);
        let bottom = pool.in_need(|| Ok(pool.space.raw().reserve(&request)?))?;
        let reserved = Extent { bottom, bytes: most };
        let shared = Shared { pool: Arc::clone(pool), reserved, committed: AtomicUsize::new(0) };
        let stack = Self(Arc::new(shared));
        if first > 0 {
            stack.grow(first)?;
        }
        Ok(stack)
    }

    /// Returns the address behind the highest byte: where an empty stack begins.
    #[must_use]
    pub fn top(&self) -> usize {
        self.0.reserved.top()
    }

    /// Returns the address of the lowest byte that has memory behind it.
    #[must_use]
    pub fn bottom(&self) -> usize {
        self.top() - self.len()
    }

    /// Returns how many bytes have memory behind them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no byte has memory behind it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the addresses below the stack that it may grow into, the guard page not among them.
    #[must_use]
    pub fn reserve(&self) -> Range<usize> {
        self.0.reserved.bottom..self.bottom()
    }

    /// Returns the addresses of the guard page below the largest size.
    #[must_use]
    pub fn guard(&self) -> Range<usize> {
        let bottom = self.0.reserved.bottom;
        bottom - self.0.pool.space.geometry().page_bytes()..bottom
    }

    /// Grows the stack to `bytes`, rounded up to pages. Changes nothing if it has as much already.
    ///
    /// # Errors
    /// [`StackError`]: it may not become so large, memory ran out, or another thread grows it at
    /// this moment ([`StackError::Growing`]). The stack stays as it is.
    pub fn grow(&self, bytes: usize) -> Result<(), StackError> {
        self.0.grow(bytes)
    }

    /// Takes the memory below the top `bytes`, rounded up to pages, away. An access there traps
    /// from now on. Changes nothing if the stack is not larger.
    ///
    /// # Safety
    /// Nothing on the stack below that is needed any more.
    ///
    /// # Errors
    /// [`StackError`]. If the system refused, the memory goes with the stack at the latest.
    pub unsafe fn shrink(&mut self, bytes: usize) -> Result<(), StackError> {
        // SAFETY: the caller's condition.
        unsafe { self.0.shrink(bytes) }
    }

    /// Returns the right to grow the stack, for the code that will run on it.
    #[must_use]
    pub fn grower(&self) -> Grower {
        Grower(Arc::clone(&self.0))
    }
}

impl Grower {
    /// Returns how many bytes have memory behind them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no byte has memory behind it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows the stack, as [`Growable::grow`] does.
    ///
    /// # Errors
    /// [`StackError`]. The stack stays as it is.
    pub fn grow(&self, bytes: usize) -> Result<(), StackError> {
        self.0.grow(bytes)
    }
}

impl Shared {
    fn len(&self) -> usize {
        // Acquire: pairs with the Release in `release`. The pages may be used.
        self.committed.load(Ordering::Acquire) & !MARK
    }

    fn grow(&self, bytes: usize) -> Result<(), StackError> {
        let most = self.reserved.bytes;
        if bytes > most {
            return Err(StackError::BeyondMost { bytes, most });
        }
        let bytes = self.pool.shape.checked(bytes)?;
        if self.len() >= bytes {
            return Ok(());
        }
        let size = self.claim()?;
        if size >= bytes {
            return self.release(size, Ok(()));
        }
        let pages = self.reserved.top() - bytes..self.reserved.top() - size;
        // SAFETY: this owns the area. No page of it below `len` is committed, and no other thread
        // commits any while the size is claimed.
        let committed = unsafe { self.pool.space.raw().commit(&[pages]) };
        self.release(if committed.is_ok() { bytes } else { size }, committed)
    }

    /// Takes memory away.
    ///
    /// # Safety
    /// That of [`Growable::shrink`].
    unsafe fn shrink(&self, bytes: usize) -> Result<(), StackError> {
        let bytes = self.pool.shape.checked(bytes)?;
        let size = self.claim()?;
        if bytes >= size {
            return self.release(size, Ok(()));
        }
        // Before the memory goes: the child of a fork finds no size without memory.
        self.committed.store(bytes | own_mark(), Ordering::Release);
        let pages = self.reserved.top() - size..self.reserved.top() - bytes;
        // SAFETY: this owns the area, the size is claimed, and the caller needs the pages no more.
        let decommitted = unsafe { self.pool.space.raw().decommit(&[pages]) };
        self.release(bytes, decommitted)
    }

    /// Claims the size, which no other thread changes then. Returns it.
    fn claim(&self) -> Result<usize, StackError> {
        // Relaxed: the exchange decides.
        let word = self.committed.load(Ordering::Relaxed);
        let (size, mark) = (word & !MARK, word & MARK);
        if mark == own_mark() {
            return Err(StackError::Growing);
        }
        // Acquire: pairs with the Release in `release`. What the thread before has changed is done.
        let claimed =
            self.committed.compare_exchange(word, size | own_mark(), Ordering::Acquire, Ordering::Relaxed);
        claimed.map_err(|_| StackError::Growing)?;
        if mark != 0 {
            self.end_lost_change(size).inspect_err(|_| self.committed.store(word, Ordering::Release))?;
        }
        Ok(size)
    }

    /// Takes all memory below the size away: in the child of a fork, what a thread that it does not
    /// have was committing or decommitting there.
    #[cold]
    fn end_lost_change(&self, size: usize) -> Result<(), AreaError> {
        let below = self.reserved.bottom..self.reserved.top() - size;
        if below.is_empty() {
            return Ok(());
        }
        // SAFETY: this owns the area, the size is claimed, and nothing uses the pages below it: the
        // thread that would have had them is not there.
        unsafe { self.pool.space.raw().decommit(&[below]) }
    }

    /// Sets a size that was claimed.
    fn release(&self, size: usize, answer: Result<(), AreaError>) -> Result<(), StackError> {
        // Release: pairs with the Acquire in `len` and `claim`.
        self.committed.store(size, Ordering::Release);
        Ok(answer?)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this owned the area, which `new` reserved, and nothing runs on it any more.
        if let Err(error) = unsafe { self.pool.space.raw().unreserve(self.reserved.bottom) } {
            self.pool.space.platform().fatal(&error);
        }
    }
}

impl fmt::Debug for Growable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Growable({:#x}..{:#x}, down to {:#x})", self.bottom(), self.top(), self.0.reserved.bottom)
    }
}

impl fmt::Debug for Grower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grower").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stacks, StacksOptions};
    use vmalloc::ReadNofault;
    use vmalloc_linux::page_bytes;

    #[test]
    #[cfg_attr(miri, ignore = "maps memory of the kernel's")]
    fn a_stack_that_another_thread_was_growing_at_a_fork_grows_in_the_child() {
        let linux = vmalloc_linux::LinuxOptions::new().max_bytes(1 << 30).drain_thread(false);
        let stacks = Stacks::open_with(linux, &StacksOptions::new()).unwrap();
        let stack = stacks.request().bytes(2 * page_bytes()).growable(64 * page_bytes()).unwrap();
        // Another thread has committed some pages, and not yet noted it.
        let size = stack.0.claim().unwrap();
        let pages = stack.top() - 8 * page_bytes()..stack.top() - size;
        // SAFETY: this owns the stack, and the pages are not committed.
        unsafe { stack.0.pool.space.raw().commit(&[pages]) }.unwrap();
        vmalloc_harness::in_forked_child(|| {
            // Whether the lowest byte is memory, and the byte below it.
            let is_memory = |addr: usize| stack.0.pool.space.platform().read_nofault(addr, &mut [0]) == 1;
            let look = || [stack.bottom(), stack.bottom() - 1].map(is_memory);
            let grown =
                |pages| stack.grow(pages * page_bytes()).map(|()| (stack.len() / page_bytes(), look()));
            [3, 6, 63].map(grown) == [3, 6, 63].map(|pages| Ok((pages, [true, false])))
        });
        // In the parent that thread goes on.
        assert_eq!(stack.grow(64 * page_bytes()), Err(StackError::Growing));
        stack.0.release(8 * page_bytes(), Ok(())).unwrap();
        stack.grow(64 * page_bytes()).unwrap();
    }
}
