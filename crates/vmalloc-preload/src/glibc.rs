//! The C library's own malloc, by the names under which it is not replaced.

use libc::{c_int, c_void, size_t};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
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

/// A function of the type `F` that has no name but the one that this library replaces. The
/// constructor looks it up, or the constructor of another library that calls it before.
pub(crate) struct Hidden<F> {
    name: &'static CStr,
    of: Owner,
    /// 0: not looked up yet. 1: there is none.
    addr: AtomicUsize,
    kind: PhantomData<F>,
}

/// The owner of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// The C library's. Not the next in the order of look-ups: a program may be linked to another
    /// malloc, which is replaced as well (redis is, to jemalloc).
    Glibc,
    /// The next library's: it may stand in for the same function.
    Next,
}

const UNKNOWN: usize = 0;
const MISSING: usize = 1;

impl<F: Copy> Hidden<F> {
    /// # Safety
    /// `F` is a pointer to functions of the type that the function of this name has, in every
    /// library that has it.
    pub(crate) const unsafe fn new(name: &'static CStr, of: Owner) -> Self {
        Self { name, of, addr: AtomicUsize::new(UNKNOWN), kind: PhantomData }
    }

    /// Returns the function, if there is one.
    pub(crate) fn get(&self) -> Option<F> {
        // Relaxed: all threads find one function.
        let known = self.addr.load(Ordering::Relaxed);
        let addr = if known == UNKNOWN { self.look_up() } else { known };
        // SAFETY: the function has this type, by the promise of `new`.
        (addr != MISSING).then(|| unsafe { mem::transmute_copy(&addr) })
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

/// Declares hidden functions with their types, and a function that looks all of them up. No later
/// call does so: it would take the loader's lock, and replace what dlerror(3) is about to tell.
macro_rules! hidden {
    ($($name:ident: fn($($of:ty),*) -> $result:ty = $owner:ident, $symbol:literal;)*) => {
        $(static $name: $crate::glibc::Hidden<unsafe extern "C" fn($($of),*) -> $result> =
            // SAFETY: the function of this name has this type, in every library that has it.
            unsafe { $crate::glibc::Hidden::new($symbol, $crate::glibc::Owner::$owner) };)*

        /// Looks up the functions that this library stands in for.
        pub(crate) fn look_up() {
            $($name.get();)*
        }
    };
}

pub(crate) use hidden;

hidden! {
    USABLE_SIZE: fn(*mut c_void) -> size_t = Glibc, c"malloc_usable_size";
    TRIM: fn(size_t) -> c_int = Glibc, c"malloc_trim";
    MALLINFO2: fn() -> libc::mallinfo2 = Glibc, c"mallinfo2";
    ALIGNED_ALLOC: fn(size_t, size_t) -> *mut c_void = Glibc, c"aligned_alloc";
    MALLOPT: fn(c_int, c_int) -> c_int = Glibc, c"mallopt";
}

/// Returns the size of a block of the C library's; `None` if that can't be told.
///
/// # Safety
/// `memory` is null, or a block of the C library's.
pub(crate) unsafe fn usable_size(memory: *mut c_void) -> Option<usize> {
    // SAFETY: the caller's promise.
    USABLE_SIZE.get().map(|call| unsafe { call(memory) })
}

/// Gives free memory of the C library's back. Returns 1 if there was some.
pub(crate) fn trim(pad: size_t) -> c_int {
    // SAFETY: no conditions.
    TRIM.get().map_or(0, |call| unsafe { call(pad) })
}

/// Returns the C library's counts, or none at all where it has no such call (before glibc 2.33).
pub(crate) fn mallinfo2() -> libc::mallinfo2 {
    // SAFETY: a structure of numbers, for which zero is a value; the call has no conditions.
    unsafe { MALLINFO2.get().map_or_else(|| mem::zeroed(), |call| call()) }
}

/// Allocates as the C library's `aligned_alloc`, whose answer to wrong alignments has changed
/// (glibc 2.38).
pub(crate) fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions of either.
    unsafe { ALIGNED_ALLOC.get().map_or_else(|| memalign(align, bytes), |call| call(align, bytes)) }
}

/// Lets the C library take `bytes` bytes more than it needs when its heap grows. It does not adapt
/// to the sizes of large blocks from then on.
pub(crate) fn pad_heap(bytes: c_int) {
    let Some(call) = MALLOPT.get() else { return };
    // SAFETY: it writes two words under the lock of the main heap. Threads that allocate meanwhile
    // see the old ones or the new ones, and either will do. A refusal changes nothing.
    unsafe { call(libc::M_TOP_PAD, bytes) };
}
