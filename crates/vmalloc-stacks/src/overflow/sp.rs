//! The stack pointer of the code that a signal interrupted.

use std::ffi::c_void;

/// Returns the stack pointer, where it is known how the machine stores it.
///
/// # Safety
/// `context` is the third argument of a signal handler, or null.
pub(super) unsafe fn of(context: *mut c_void) -> Option<usize> {
    // SAFETY: the caller's condition.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    machine::sp(context)
}

#[cfg(target_arch = "x86_64")]
mod machine {
    pub(super) fn sp(context: &libc::ucontext_t) -> Option<usize> {
        Some(context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize)
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(super) fn sp(context: &libc::ucontext_t) -> Option<usize> {
        Some(context.uc_mcontext.sp as usize)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    pub(super) fn sp(_: &libc::ucontext_t) -> Option<usize> {
        None
    }
}
