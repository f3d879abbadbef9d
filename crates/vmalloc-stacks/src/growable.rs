//! Stacks that grow.
//!
//! ```text
//!   guard │ addresses alone                    │ committed             │ guard
//!         bottom of the reservation       bottom()                    top()
//!                                    ◄── grow(to)
//! ```

use crate::error::StackError;
use crate::hold::Hold;
use crate::shape::Extent;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use vmalloc::Platform;

/// Set in the size while a thread commits pages: sizes are multiples of the page.
const GROWING: usize = 1;

/// An owned stack that reserves addresses for its largest size, and has memory behind the top part.
/// Below that part every access traps, down to the guard page.
///
/// It grows when its owner says so, also from code that runs on it. It never grows by itself: a
/// signal handler would have to commit pages, and committing takes locks that the interrupted
/// thread may hold.
///
/// ```
/// use vmalloc_stacks::{Settings, Stacks};
///
/// let stacks = Stacks::open(&Settings::new())?;
/// let stack = stacks.growable(16 << 10, 64 << 20)?;
/// stack.grow(1 << 20)?;
/// assert_eq!(stack.size(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growable {
    hold: Hold,
    reserved: Extent,
    committed: AtomicUsize,
}

impl Growable {
    pub(crate) fn new(hold: &Hold, name: Option<&str>, first: usize, most: usize) -> Result<Self, StackError> {
        let (first, most) = (hold.shape.checked(first)?, hold.shape.checked(most)?);
        if first > most {
            return Err(StackError::BeyondMost { bytes: first, most });
        }
        let request = hold.request(most, name);
        let bottom = hold.in_need(|| Ok(hold.space.raw().reserve(&request)?))?;
        let reserved = Extent { bottom, bytes: most };
        let stack = Self { hold: hold.another(), reserved, committed: AtomicUsize::new(0) };
        stack.grow(first)?;
        Ok(stack)
    }

    /// Returns the address behind the highest byte: where an empty stack begins.
    #[must_use]
    pub fn top(&self) -> usize {
        self.reserved.top()
    }

    /// Returns the address of the lowest byte that has memory behind it.
    #[must_use]
    pub fn bottom(&self) -> usize {
        self.top() - self.size()
    }

    /// Returns the bytes that have memory behind them.
    #[must_use]
    pub fn size(&self) -> usize {
        // Acquire: pairs with the Release in `grow`. The pages may be used.
        self.committed.load(Ordering::Acquire) & !GROWING
    }

    /// Returns the addresses below the stack that it may grow into, the guard page not among them.
    #[must_use]
    pub fn reserve(&self) -> Range<usize> {
        self.reserved.bottom..self.bottom()
    }

    /// Returns the addresses of the guard page below the largest size.
    #[must_use]
    pub fn guard(&self) -> Range<usize> {
        self.reserved.bottom - self.hold.space.geometry().page_bytes()..self.reserved.bottom
    }

    /// Grows the stack to `bytes`, rounded up to pages. Changes nothing if it has as much already.
    ///
    /// # Errors
    /// [`StackError`]: it may not become so large, memory ran out, or another thread grows it at
    /// this moment ([`StackError::Growing`]). The stack stays as it is.
    pub fn grow(&self, bytes: usize) -> Result<(), StackError> {
        let most = self.reserved.bytes;
        if bytes > most {
            return Err(StackError::BeyondMost { bytes, most });
        }
        let bytes = self.hold.shape.checked(bytes)?;
        // Relaxed: the exchange below decides.
        let size = self.committed.load(Ordering::Relaxed);
        if size & GROWING == 0 && bytes <= size {
            return Ok(());
        }
        let is_ours = size & GROWING == 0
            // Acquire: comes after the call that set the size.
            && self.committed.compare_exchange(size, size | GROWING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_ours {
            return Err(StackError::Growing);
        }
        let pages = self.top() - bytes..self.top() - size;
        // SAFETY: this owns the area. No page of it below `size` is committed, and no other thread
        // commits any while the size is marked.
        let committed = unsafe { self.hold.space.raw().commit(&[pages]) };
        // Release: pairs with the Acquire in `size` and above.
        self.committed.store(if committed.is_ok() { bytes } else { size }, Ordering::Release);
        Ok(committed?)
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
        let bytes = self.hold.shape.checked(bytes)?;
        let size = self.size();
        if bytes >= size {
            return Ok(());
        }
        *self.committed.get_mut() = bytes;
        let pages = self.top() - size..self.top() - bytes;
        // SAFETY: this owns the area and is borrowed exclusively, and the caller needs the pages no
        // more.
        unsafe { self.hold.space.raw().decommit(&[pages]) }?;
        Ok(())
    }
}

impl Drop for Growable {
    fn drop(&mut self) {
        // SAFETY: this owned the area, which `new` reserved, and nothing runs on it any more.
        if let Err(error) = unsafe { self.hold.space.raw().unreserve(self.reserved.bottom) } {
            self.hold.space.platform().fatal(&error);
        }
    }
}

impl fmt::Debug for Growable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Growable({:#x}..{:#x}, down to {:#x})", self.bottom(), self.top(), self.reserved.bottom)
    }
}
