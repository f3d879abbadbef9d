//! Requests for one stack.

use crate::error::StackError;
use crate::growable::Growable;
use crate::recycle::Way;
use crate::stack::Stack;
use crate::stacks::Stacks;
use std::sync::Arc;
use vmalloc::Tag;

/// A request for one stack of a pool, made by [`Stacks::request`].
///
/// ```
/// use vmalloc_stacks::{Stacks, StacksOptions};
///
/// let stacks = Stacks::open(&StacksOptions::new())?;
/// let parser = stacks.request().name("parser").bytes(256 << 10).stack()?;
/// assert_eq!(parser.len(), 256 << 10);
/// let growing = stacks.request().bytes(16 << 10).growable(64 << 20)?;
/// assert_eq!((growing.len(), growing.reserve().len()), (16 << 10, (64 << 20) - (16 << 10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct StackRequest<'a> {
    stacks: &'a Stacks,
    bytes: usize,
    name: Option<Tag>,
}

impl<'a> StackRequest<'a> {
    pub(crate) fn new(stacks: &'a Stacks) -> Self {
        Self { stacks, bytes: stacks.stack_bytes(), name: None }
    }

    /// Asks for `bytes` bytes, rounded up to pages, or for a growable stack that begins with so
    /// many. Default: the [size](Stacks::stack_bytes) of the pool's stacks.
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Names the stack, for reports of overflows. The first 31 bytes count. Costs as much as an
    /// area with a tag: about a microsecond.
    pub fn name(self, name: impl Into<Tag>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Makes the stack. One of the pool's size and without a name is that of [`Stacks::stack`].
    /// Another is the space's, so that no call is made when one of the size waits in its cache.
    /// Threads that do this share a count. A program with many stacks of another size opens another
    /// pool.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn stack(self) -> Result<Stack, StackError> {
        let pool = self.stacks.pool();
        let bytes = pool.shape.checked(self.bytes)?;
        if self.name.is_none() && bytes == pool.shape.stack_bytes {
            return self.stacks.stack();
        }
        let extent = pool.alloc(bytes, self.name)?;
        Ok(Stack::new(Arc::clone(pool), extent, Way::Single))
    }

    /// Makes a stack that can grow to `most` bytes, rounded up to pages. See [`Growable`]. With
    /// `bytes(0)` it has no memory yet: no byte of it can be touched before the first
    /// [`grow`](Growable::grow), and making it takes no system call.
    ///
    /// # Errors
    /// [`StackError`]; nothing is lost or changed.
    pub fn growable(self, most: usize) -> Result<Growable, StackError> {
        Growable::new(self.stacks.pool(), self.name, self.bytes, most)
    }
}
