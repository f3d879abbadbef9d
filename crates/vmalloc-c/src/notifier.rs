//! Notifiers: callbacks of programs that can give something back when a space runs short.

use crate::answer::{self, Argument};
use crate::error::vmalloc_error;
use crate::space::{on, vmalloc_space};
use libc::c_void;
use std::sync::Arc;
use vmalloc_linux::{Notifier, Platform, Space};

/// A function that is called when addresses or memory for `bytes` bytes are short. It may allocate
/// and free. It returns how many bytes it has freed, and 0 if none. It may run on several threads
/// at once.
pub type vmalloc_notifier_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, bytes: u64) -> u64>;

/// A function that is called once, when a context is used no more: on the thread that ends the
/// notifier, or on one that is just leaving the callback.
pub type vmalloc_notifier_release = Option<unsafe extern "C-unwind" fn(context: *mut c_void)>;

/// A registered notifier.
pub struct vmalloc_notifier(
    /// Owned: a space has a weak reference.
    #[allow(dead_code)]
    Arc<Callback>,
);

struct Callback {
    callback: unsafe extern "C-unwind" fn(*mut c_void, u64) -> u64,
    release: vmalloc_notifier_release,
    context: *mut c_void,
    page_bytes: u64,
}

// SAFETY: the caller of `vmalloc_notifier_new` says that any thread may call the functions with the
// context, several at once.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

impl<P: Platform> Notifier<P> for Callback {
    fn make_room(self: Arc<Self>, _: &Space<P>, pages: u64) -> u64 {
        // SAFETY: the caller of `vmalloc_notifier_new` promised it.
        let bytes = unsafe { call(self.callback, self.context, pages.saturating_mul(self.page_bytes)) };
        bytes.div_ceil(self.page_bytes)
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller of `vmalloc_notifier_new` promised it; this is the last use.
            unsafe { release_context(release, self.context) };
        }
    }
}

/// Calls the function here, so that an exception that it throws ends the program at this point.
///
/// # Safety
/// The function may be called with this context.
unsafe extern "C" fn call(
    callback: unsafe extern "C-unwind" fn(*mut c_void, u64) -> u64,
    context: *mut c_void,
    bytes: u64,
) -> u64 {
    // SAFETY: the caller's condition.
    unsafe { callback(context, bytes) }
}

/// Calls the function here, as [`call`] does.
///
/// # Safety
/// The function may be called with this context.
unsafe extern "C" fn release_context(
    release: unsafe extern "C-unwind" fn(*mut c_void),
    context: *mut c_void,
) {
    // SAFETY: the caller's condition.
    unsafe { release(context) }
}

/// Has `callback` called before an allocation of the space fails for want of addresses or memory.
/// It is asked again as long as it frees anything. `release` may be `NULL`. If this fails,
/// `release` is not called.
///
/// # Safety
/// Both functions may be called with `context` on any thread, until `release` is called. The
/// callback does not end its own notifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_notifier_new(
    space: *mut vmalloc_space,
    callback: vmalloc_notifier_callback,
    context: *mut c_void,
    release: vmalloc_notifier_release,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_notifier {
    call!(handle, detail; space => {
        let callback = callback.ok_or(Argument::Null)?;
        let page_bytes = answer::page_bytes() as u64;
        let mut entry = Arc::new(Callback { callback, release, context, page_bytes });
        let registered = on!(&space.0, it => {
            let shared: Arc<dyn Notifier<_>> = Arc::<Callback>::clone(&entry);
            it.register_notifier(&shared)
        });
        if let Err(error) = registered {
            if let Some(entry) = Arc::get_mut(&mut entry) {
                entry.release = None;
            }
            return Err(error.into());
        }
        Ok(vmalloc_notifier(entry))
    })
}

/// Ends a notifier. A callback that runs on another thread at this moment goes on, and `release` is
/// called behind it. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_notifier_free(notifier: *mut vmalloc_notifier) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(notifier) };
}
