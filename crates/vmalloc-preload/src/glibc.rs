//! The C library's own malloc, by the names under which it is not replaced.

use libc::{c_int, c_void, size_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    #[link_name = "__libc_malloc"]
    pub(crate) fn malloc(bytes: size_t) -> *mut c_void;
    #[link_name = "__libc_calloc"]
    pub(crate) fn calloc(count: size_t, bytes: size_t) -> *mut c_void;
    #[link_name = "__libc_realloc"]
    pub(crate) fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void;
    #[link_name = "__libc_free"]
    pub(crate) fn free(memory: *mut c_void);
    #[link_name = "__libc_memalign"]
    pub(crate) fn memalign(align: size_t, bytes: size_t) -> *mut c_void;
    #[link_name = "__libc_valloc"]
    pub(crate) fn valloc(bytes: size_t) -> *mut c_void;
    #[link_name = "__libc_pvalloc"]
    pub(crate) fn pvalloc(bytes: size_t) -> *mut c_void;
}

/// A function that has no name but the one that this library replaces. The constructor looks it up,
/// or the constructor of another library that calls it before.
pub(crate) struct Hidden {
    name: &'static CStr,
    of: Owner,
    /// 0: not looked up yet. 1: there is none.
    addr: AtomicUsize,
}

/// The owner of a function.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The C library's. Not the next in the order of look-ups: a program may be linked to another
    /// malloc, which is replaced as well (redis is, to jemalloc).
    Glibc,
    /// The next library's: it may stand in for the same function.
    Next,
}

const UNKNOWN: usize = 0;
const MISSING: usize = 1;

impl Hidden {
    const fn new(name: &'static CStr) -> Self {
        Self { name, of: Owner::Glibc, addr: AtomicUsize::new(UNKNOWN) }
    }

    /// Returns a function of the library that comes next in the order of look-ups.
    pub(crate) const fn next(name: &'static CStr) -> Self {
        Self { name, of: Owner::Next, addr: AtomicUsize::new(UNKNOWN) }
    }

    /// Looks it up, so that no later call does.
    pub(crate) fn look_up_now(&self) {
        self.addr();
    }

    pub(crate) fn addr(&self) -> Option<usize> {
        // Relaxed: all threads find one function.
        let known = self.addr.load(Ordering::Relaxed);
        let addr = if known == UNKNOWN { self.look_up() } else { known };
        (addr != MISSING).then_some(addr)
    }

    #[cold]
    fn look_up(&self) -> usize {
        // SAFETY: both names end in a zero byte. The library is there, and is not loaded again.
        let found = unsafe {
            match self.of {
                Owner::Next => libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()),
                Owner::Glibc => {
                    let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                    if library.is_null() { library } else { libc::dlsym(library, self.name.as_ptr()) }
                }
            }
        };
        if found.is_null() {
            // SAFETY: no conditions. The program is not told of a failure that is not its own.
            unsafe { libc::dlerror() };
        }
        let addr = (found as usize).max(MISSING);
        self.addr.store(addr, Ordering::Relaxed);
        addr
    }
}

static USABLE_SIZE: Hidden = Hidden::new(c"malloc_usable_size");
static TRIM: Hidden = Hidden::new(c"malloc_trim");
static MALLINFO2: Hidden = Hidden::new(c"mallinfo2");
static ALIGNED_ALLOC: Hidden = Hidden::new(c"aligned_alloc");
static MALLOPT: Hidden = Hidden::new(c"mallopt");

/// Returns the size of a block of the C library's; `None` if that can't be told.
///
/// # Safety
/// `memory` is null, or a block of the C library's.
pub(crate) unsafe fn usable_size(memory: *mut c_void) -> Option<usize> {
    let addr = USABLE_SIZE.addr()?;
    // SAFETY: the function of this name has this type, in every C library that has it.
    let call: unsafe extern "C" fn(*mut c_void) -> size_t = unsafe { std::mem::transmute(addr) };
    // SAFETY: the caller's promise.
    Some(unsafe { call(memory) })
}

/// Gives free memory of the C library's back. Returns 1 if there was some.
pub(crate) fn trim(pad: size_t) -> c_int {
    let Some(addr) = TRIM.addr() else { return 0 };
    // SAFETY: the function of this name has this type.
    let call: unsafe extern "C" fn(size_t) -> c_int = unsafe { std::mem::transmute(addr) };
    // SAFETY: no conditions.
    unsafe { call(pad) }
}

/// Returns the C library's counts, or none at all where it has no such call (before glibc 2.33).
pub(crate) fn mallinfo2() -> libc::mallinfo2 {
    let Some(addr) = MALLINFO2.addr() else {
        // SAFETY: a structure of numbers, for which zero is a value.
        return unsafe { std::mem::zeroed() };
    };
    // SAFETY: the function of this name has this type.
    let call: unsafe extern "C" fn() -> libc::mallinfo2 = unsafe { std::mem::transmute(addr) };
    // SAFETY: no conditions.
    unsafe { call() }
}

/// Allocates as the C library's `aligned_alloc`, whose answer to wrong alignments has changed
/// (glibc 2.38).
pub(crate) fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    let Some(addr) = ALIGNED_ALLOC.addr() else {
        // SAFETY: no conditions.
        return unsafe { memalign(align, bytes) };
    };
    // SAFETY: the function of this name has this type.
    let call: unsafe extern "C" fn(size_t, size_t) -> *mut c_void = unsafe { std::mem::transmute(addr) };
    // SAFETY: no conditions.
    unsafe { call(align, bytes) }
}

/// Lets the C library take `bytes` bytes more than it needs when its heap grows. It does not adapt
/// to the sizes of large blocks from then on.
pub(crate) fn pad_heap(bytes: c_int) {
    let Some(addr) = MALLOPT.addr() else { return };
    // SAFETY: the function of this name has this type.
    let call: unsafe extern "C" fn(c_int, c_int) -> c_int = unsafe { std::mem::transmute(addr) };
    // SAFETY: it writes two words under the lock of the main heap. Threads that allocate meanwhile
    // see the old ones or the new ones, and either will do. A refusal changes nothing.
    unsafe { call(libc::M_TOP_PAD, bytes) };
}

/// Looks all functions up, so that no later call does: that would take the loader's lock, and
/// replace what dlerror(3) is about to tell.
pub(crate) fn look_up_all() {
    for hidden in [&USABLE_SIZE, &TRIM, &MALLINFO2, &ALIGNED_ALLOC, &MALLOPT] {
        hidden.addr();
    }
}
