//! `StackCreator` of wasmtime over `vmalloc-stacks`.

use rustix::mm::{Advice, madvise};
use std::ops::Range;
use vmalloc_stacks::{Stack, StackError, StacksOptions};
use wasmtime::{Error, StackCreator, StackMemory};

/// A maker of stacks, for [`wasmtime::Config::with_host_stack`].
#[derive(Debug)]
pub struct Stacks(vmalloc_stacks::Stacks);

impl Stacks {
    /// Opens a pool for stacks of `stack_bytes`, the `async_stack_size` of the config. Others are made as well, at more cost.
    ///
    /// # Errors
    /// [`StackError`].
    pub fn open(stack_bytes: usize) -> Result<Self, StackError> {
        let settings = StacksOptions::new().stack_bytes(stack_bytes).name("wasmtime");
        Ok(Self(vmalloc_stacks::Stacks::open(&settings)?))
    }

    /// Returns a maker on a pool.
    pub fn on(pool: vmalloc_stacks::Stacks) -> Self {
        Self(pool)
    }
}

// SAFETY: each stack is its own, and has an unmapped page below its bottom.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, size: usize, zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let stack = self.0.request().bytes(size).stack()?;
        if zeroed {
            // SAFETY: all of the stack's pages are this function's, and nothing needs their content.
            unsafe { madvise(stack.bottom() as *mut _, stack.len(), Advice::LinuxDontNeed) }?;
        }
        Ok(Box::new(Fiber(stack)))
    }
}

/// One stack.
struct Fiber(Stack);

// SAFETY: the bounds are multiples of the page size, and the page of `guard_range` is never mapped.
unsafe impl StackMemory for Fiber {
    fn top(&self) -> *mut u8 {
        self.0.top() as *mut u8
    }

    fn range(&self) -> Range<usize> {
        self.0.bottom()..self.0.top()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let guard = self.0.guard();
        guard.start as *mut u8..guard.end as *mut u8
    }
}
