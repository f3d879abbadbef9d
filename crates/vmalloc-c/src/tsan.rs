//! Order for the thread sanitizer, which sees what a program compiled with it does, and not what
//! this library does.
//!
//! Memory goes from thread to thread by atomics in here. To the sanitizer that is no order, so the
//! writes of its last owner and of its next one look like a race. The calls of this library
//! therefore tell it of one object, by the sanitizer's interface: each call that is given a handle
//! releases it first ([`before`]), and each that answers acquires it last ([`after`]).
//!
//! That is one object for all memory, and not one an area: areas are cut and joined, so the next
//! owner's area need not begin where the last one's did. The price is that races between two
//! threads are overlooked which calls of this library happen to order. A suppression file can't do
//! it: the two stacks of such a report are the program's own.
//!
//! During a call the sanitizer ignores what the thread reads and writes ([`Own`]): the library has
//! its records on the program's heap, and clears and copies memory between two owners, by functions
//! that the sanitizer watches.
//!
//! Nothing of this costs a program without the sanitizer more than a test in calls that allocate
//! memory of the heap or look through a request; `vmalloc_alloc` and `vmalloc_free` have none. A
//! space that is opened under the sanitizer is an [`Of::Ordered`](crate::space::Of::Ordered), on
//! which they take the long way.

use libc::{RTLD_DEFAULT, c_void};
use std::sync::OnceLock;

type Tell = unsafe extern "C" fn(*const c_void);

type Switch = unsafe extern "C" fn();

/// Functions of the sanitizer: `__tsan_release`, `__tsan_acquire`, `__tsan_ignore_thread_begin` and
/// `…_end`.
struct Sanitizer {
    release: Tell,
    acquire: Tell,
    ignore: Switch,
    watch: Switch,
}

/// The address of this is the object.
static SANITIZER: OnceLock<Option<Sanitizer>> = OnceLock::new();

/// Returns true if the program runs with the thread sanitizer. The first call looks for it.
pub(crate) fn is_there() -> bool {
    SANITIZER.get_or_init(find).is_some()
}

/// Begins a call: what this thread did is before all that threads do behind later answers.
#[inline(always)]
pub(crate) fn before() {
    if let Some(Some(sanitizer)) = SANITIZER.get() {
        // SAFETY: the function takes any address, and only remembers it.
        unsafe { (sanitizer.release)((&raw const SANITIZER).cast()) };
    }
}

/// Ends a call: see [`before`].
#[inline(always)]
pub(crate) fn after() {
    if let Some(Some(sanitizer)) = SANITIZER.get() {
        // SAFETY: as above.
        unsafe { (sanitizer.acquire)((&raw const SANITIZER).cast()) };
    }
}

/// While this is there the sanitizer ignores what this thread reads and writes: it is the library's
/// own, or memory between two owners, which it clears and copies.
pub(crate) struct Own(Option<&'static Sanitizer>);

impl Own {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        // In the first call that opens a space the sanitizer is not known yet.
        let sanitizer = SANITIZER.get().and_then(Option::as_ref);
        if let Some(sanitizer) = sanitizer {
            // SAFETY: no conditions; the drop ends it.
            unsafe { (sanitizer.ignore)() };
        }
        Self(sanitizer)
    }
}

impl Drop for Own {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(sanitizer) = self.0 {
            // SAFETY: begun by `new`, or again by `watched`.
            unsafe { (sanitizer.watch)() };
        }
    }
}

/// Calls a function of the program's, which the sanitizer watches.
pub(crate) fn watched<T>(call: impl FnOnce() -> T) -> T {
    let Some(Some(sanitizer)) = SANITIZER.get() else { return call() };
    // SAFETY: a call of the library's is under way, and ignores what the thread does.
    unsafe { (sanitizer.watch)() };
    let answer = call();
    // SAFETY: as above: the call ends it.
    unsafe { (sanitizer.ignore)() };
    answer
}

fn find() -> Option<Sanitizer> {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: a string of C.
        let found = unsafe { libc::dlsym(RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    // SAFETY: if the program has such a function, it is the sanitizer's, for the prefix is reserved
    // to the compiler; the types are those of its header, and of its sources for the last two.
    unsafe {
        Some(Sanitizer {
            release: std::mem::transmute::<*mut c_void, Tell>(find(c"__tsan_release")?),
            acquire: std::mem::transmute::<*mut c_void, Tell>(find(c"__tsan_acquire")?),
            ignore: std::mem::transmute::<*mut c_void, Switch>(find(c"__tsan_ignore_thread_begin")?),
            watch: std::mem::transmute::<*mut c_void, Switch>(find(c"__tsan_ignore_thread_end")?),
        })
    }
}
