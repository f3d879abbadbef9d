//! Alternate stacks for threads that have none.

use crate::error::StackError;
use crate::stack::Stack;
use crate::stacks::Stacks;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;
use thiserror::Error;

/// The size of an alternate stack: a frame of the kernel with all registers (11 KiB with AMX), the
/// handler, and those of the program before it.
const BYTES: usize = 64 << 10;

/// An error of [`AltStack::install`]. The thread is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AltStackError {
    /// The stack could not be made.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The system refused.
    #[error("sigaltstack failed")]
    Refused(#[from] io::Error),
}

/// The alternate stack of the calling thread, on which signal handlers run: one of the pool's, with
/// guards. It belongs to this thread, which drops it before it ends.
#[derive(Debug)]
pub struct AltStack {
    /// None where the thread had an alternate stack before.
    stack: Option<Stack>,
    /// Only this thread can take it down.
    of_this_thread: PhantomData<*const ()>,
}

impl AltStack {
    /// Gives the calling thread an alternate stack, if it has none.
    ///
    /// # Errors
    /// [`AltStackError`].
    pub fn install(stacks: &Stacks) -> Result<Self, AltStackError> {
        if current()?.ss_flags & libc::SS_DISABLE == 0 {
            return Ok(Self { stack: None, of_this_thread: PhantomData });
        }
        let stack = stacks.request().bytes(BYTES).stack()?;
        let ss_sp = ptr::with_exposed_provenance_mut(stack.bottom());
        set(&libc::stack_t { ss_sp, ss_flags: 0, ss_size: stack.len() })?;
        Ok(Self { stack: Some(stack), of_this_thread: PhantomData })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let Some(stack) = self.stack.take() else { return };
        let is_ours = current().is_ok_and(|current| current.ss_sp.addr() == stack.bottom());
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // Another one was set meanwhile, or this one is in use: by a handler that drops it. That
        // one stays.
        if is_ours && set(&none).is_err() {
            mem::forget(stack);
        }
    }
}

fn current() -> io::Result<libc::stack_t> {
    let mut current = MaybeUninit::uninit();
    // SAFETY: there is room for the answer, which is filled where the call succeeds.
    unsafe {
        answer(libc::sigaltstack(ptr::null(), current.as_mut_ptr()))?;
        Ok(current.assume_init())
    }
}

fn set(stack: &libc::stack_t) -> io::Result<()> {
    // SAFETY: the memory is that of a stack which lives until it is no alternate stack any more, or
    // for ever.
    answer(unsafe { libc::sigaltstack(stack, ptr::null_mut()) })
}

fn answer(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
