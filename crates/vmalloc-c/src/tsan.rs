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
//! it: the two stacks of such a report are the program's own. For the library's own records there
//! is one, `tsan.txt`: it uses the program's heap for them, which the sanitizer watches.
//!
//! Nothing of this costs a program without the sanitizer more than a test in calls that allocate
//! memory of the heap or look through a request; `vmalloc_alloc` and `vmalloc_free` have none. A
//! space that is opened under the sanitizer is an [`Of::Ordered`](crate::space::Of::Ordered), on
//! which they take the long way.

use libc::{RTLD_DEFAULT, c_void};
use std::sync::OnceLock;

type Tell = unsafe extern "C" fn(*const c_void);

/// `__tsan_release` and `__tsan_acquire` of `sanitizer/tsan_interface.h`.
struct Sanitizer {
    release: Tell,
    acquire: Tell,
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

fn find() -> Option<Sanitizer> {
    // SAFETY: the names are strings of C. If the program has such a function, it is the
    // sanitizer's, for the prefix is reserved to the compiler; the type is that of its header.
    let find = |name: &std::ffi::CStr| unsafe {
        let found = libc::dlsym(RTLD_DEFAULT, name.as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut c_void, Tell>(found))
    };
    Some(Sanitizer { release: find(c"__tsan_release")?, acquire: find(c"__tsan_acquire")? })
}
