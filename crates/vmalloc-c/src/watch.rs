//! Reports on traps: which area, and who freed it.

use crate::answer::{self, Refusal};
use crate::error::vmalloc_error;
use crate::space::{Of, vmalloc_space};
use std::sync::Arc;
use vmalloc_linux::trap_report::{self, InstallError, Watch};

/// A space that reports on traps look into.
pub struct vmalloc_watch(
    /// Owned to end it.
    #[allow(dead_code)]
    Watch,
);

/// Has traps at addresses of the space reported on the standard error: which area or guard it was,
/// and with `VMALLOC_OPEN_TRAP_ON_FREE` which thread freed it when. It handles `SIGSEGV` and
/// `SIGBUS`, and calls the handlers that were there before.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_watch_new(
    space: *mut vmalloc_space,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_watch {
    call!(handle, detail; space => {
        trap_report::install().map_err(|error| match error {
            InstallError::Refused { code } => Refusal::System("sigaction", code),
            _ => Refusal::System("sigaction", 0),
        })?;
        let watch = match &space.0 {
            Of::Whole(space) | Of::Ordered(space) => trap_report::watch(&Arc::clone(space)),
            Of::Part(space) => trap_report::watch(&Arc::clone(space)),
        };
        Ok(vmalloc_watch(watch))
    })
}

/// Ends a watch. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_watch_free(watch: *mut vmalloc_watch) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(watch) };
}
