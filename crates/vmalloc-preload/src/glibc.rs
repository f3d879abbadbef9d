//! The C library's own malloc, by the C library's own table.
//!
//! No function of it is bound by the linker. Other mallocs export the names of glibc's insides as
//! well, such as `__libc_malloc` (tcmalloc and mimalloc do): in a program that is linked to one of
//! them half of the functions would be its own, and a block would be resized by another owner.

use crate::base::{function_of_glibc, resident_pages};
use libc::{c_int, c_void, size_t};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{mem, ptr};

/// A function of the type `F` that is looked up by the name that this library replaces. The
/// constructor does so, or the first call: constructors of other libraries run before.
pub(crate) struct Hidden<F> {
    name: &'static CStr,
    of: Owner,
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
    /// The first library's: what the program calls.
    First,
}

/// The address of a function that was not looked up yet.
const UNKNOWN: usize = 0;
/// The address of a function that there is not.
const MISSING: usize = 1;

impl<F: Copy> Hidden<F> {
    /// # Safety
    /// `F` is a pointer to functions of the type that the function of this name has, in every
    /// library that has it.
    pub(crate) const unsafe fn new(name: &'static CStr, of: Owner) -> Self {
        Self { name, of, addr: AtomicUsize::new(UNKNOWN), kind: PhantomData }
    }

    /// Returns the function, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        // Relaxed: all threads find one function.
        let known = self.addr.load(Ordering::Relaxed);
        let addr = if known == UNKNOWN { self.look_up() } else { known };
        // SAFETY: the function has this type, by the promise of `new`.
        (addr != MISSING).then(|| unsafe { mem::transmute_copy(&addr) })
    }

    #[cold]
    fn look_up(&self) -> usize {
        let found = match self.of {
            Owner::Glibc => function_of_glibc(self.name),
            Owner::Next => next_of(libc::RTLD_NEXT, self.name),
            Owner::First => next_of(libc::RTLD_DEFAULT, self.name),
        };
        let addr = found.unwrap_or(MISSING);
        self.addr.store(addr, Ordering::Relaxed);
        addr
    }
}

/// Returns the function that the loader finds in an order of look-ups. The program is not told of a
/// failure that is not its own.
fn next_of(order: *mut c_void, name: &CStr) -> Option<usize> {
    // SAFETY: an order of look-ups, and a name that ends in a zero byte.
    let found = unsafe { libc::dlsym(order, name.as_ptr()) };
    if found.is_null() {
        // SAFETY: no conditions.
        unsafe { libc::dlerror() };
    }
    (!found.is_null()).then_some(found as usize)
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
    MALLOC: fn(size_t) -> *mut c_void = Glibc, c"malloc";
    CALLOC: fn(size_t, size_t) -> *mut c_void = Glibc, c"calloc";
    REALLOC: fn(*mut c_void, size_t) -> *mut c_void = Glibc, c"realloc";
    REALLOCARRAY: fn(*mut c_void, size_t, size_t) -> *mut c_void = Glibc, c"reallocarray";
    FREE: fn(*mut c_void) -> () = Glibc, c"free";
    MEMALIGN: fn(size_t, size_t) -> *mut c_void = Glibc, c"memalign";
    ALIGNED_ALLOC: fn(size_t, size_t) -> *mut c_void = Glibc, c"aligned_alloc";
    VALLOC: fn(size_t) -> *mut c_void = Glibc, c"valloc";
    PVALLOC: fn(size_t) -> *mut c_void = Glibc, c"pvalloc";
    USABLE_SIZE: fn(*mut c_void) -> size_t = Glibc, c"malloc_usable_size";
    TRIM: fn(size_t) -> c_int = Glibc, c"malloc_trim";
    MALLINFO2: fn() -> libc::mallinfo2 = Glibc, c"mallinfo2";
    MALLOPT: fn(c_int, c_int) -> c_int = Glibc, c"mallopt";
    FIRST_MALLOC: fn(size_t) -> *mut c_void = First, c"malloc";
    FIRST_FREE: fn(*mut c_void) -> () = First, c"free";
}

/// Allocates as the program does, and frees that.
pub(crate) fn allocate_as_the_program() {
    let (Some(malloc), Some(free)) = (FIRST_MALLOC.get(), FIRST_FREE.get()) else { return };
    // SAFETY: a block that nothing uses. Each malloc's free takes its own blocks.
    unsafe { free(malloc(1)) };
}

pub(crate) fn malloc(bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    MALLOC.get().map_or(ptr::null_mut(), |call| unsafe { call(bytes) })
}

pub(crate) fn calloc(count: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    CALLOC.get().map_or(ptr::null_mut(), |call| unsafe { call(count, bytes) })
}

/// # Safety
/// `memory` is null, or a block of the C library's.
pub(crate) unsafe fn realloc(memory: *mut c_void, bytes: size_t) -> *mut c_void {
    // SAFETY: the caller's promise.
    REALLOC.get().map_or(ptr::null_mut(), |call| unsafe { call(memory, bytes) })
}

/// Multiplies and calls the program's realloc, which is the first library's. `None` before glibc
/// 2.26.
///
/// # Safety
/// `memory` is null, or a block of the program's.
pub(crate) unsafe fn reallocarray(memory: *mut c_void, count: size_t, bytes: size_t) -> Option<*mut c_void> {
    // SAFETY: the caller's promise.
    REALLOCARRAY.get().map(|call| unsafe { call(memory, count, bytes) })
}

/// # Safety
/// `memory` is null, or a block of the C library's.
pub(crate) unsafe fn free(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(call) = FREE.get() {
            call(memory);
        }
    }
}

pub(crate) fn memalign(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    MEMALIGN.get().map_or(ptr::null_mut(), |call| unsafe { call(align, bytes) })
}

pub(crate) fn valloc(bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    VALLOC.get().map_or(ptr::null_mut(), |call| unsafe { call(bytes) })
}

pub(crate) fn pvalloc(bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    PVALLOC.get().map_or(ptr::null_mut(), |call| unsafe { call(bytes) })
}

/// Returns the size of a block of the C library's; `None` if that can't be told.
///
/// # Safety
/// `memory` is null, or a block of the C library's.
pub(crate) unsafe fn usable_size(memory: *mut c_void) -> Option<usize> {
    // SAFETY: the caller's promise.
    USABLE_SIZE.get().map(|call| unsafe { call(memory) })
}

/// Gives free memory of the C library's back. Returns 1 if there was some. The C library answers 1
/// as long as it has a free page, given back before or not: so the memory of the program has to
/// have fallen, where /proc tells that.
pub(crate) fn trim(pad: size_t) -> c_int {
    let before = resident_pages();
    // SAFETY: no conditions.
    let answer = TRIM.get().map_or(0, |call| unsafe { call(pad) });
    if before.is_some() && resident_pages() >= before { 0 } else { answer }
}

/// Returns the C library's counts, or none at all where it has no such call (before glibc 2.33).
pub(crate) fn mallinfo2() -> libc::mallinfo2 {
    // SAFETY: a structure of numbers, for which zero is a value; the call has no conditions.
    unsafe { MALLINFO2.get().map_or_else(|| mem::zeroed(), |call| call()) }
}

/// Allocates as the C library's `aligned_alloc`, whose answer to wrong alignments has changed
/// (glibc 2.38).
pub(crate) fn aligned_alloc(align: size_t, bytes: size_t) -> *mut c_void {
    // SAFETY: no conditions.
    ALIGNED_ALLOC.get().map_or_else(|| memalign(align, bytes), |call| unsafe { call(align, bytes) })
}

/// Lets the C library take `bytes` bytes more than it needs when its heap grows. It does not adapt
/// to the sizes of large blocks from then on.
pub(crate) fn pad_heap(bytes: c_int) {
    let Some(call) = MALLOPT.get() else { return };
    // SAFETY: it writes two words under the lock of the main heap. Threads that allocate meanwhile
    // see the old ones or the new ones, and either will do. A refusal changes nothing.
    unsafe { call(libc::M_TOP_PAD, bytes) };
}
