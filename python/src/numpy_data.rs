//! numpy's data in a space of the process.
//!
//! numpy calls these functions from any thread, with and without the interpreter's lock, and frees
//! arrays after the `with` block, perhaps while the interpreter ends. So they call nothing of Python,
//! and the space stays for as long as the process. A block is told by its address: those in the span
//! are areas, all others are of `malloc`. No block has a header, and no list is kept.

use crate::buffers::{Count, counts};
use pyo3::exceptions::{PyImportError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{LazyLock, OnceLock};
use vmalloc_linux::{Linux, LinuxOptions, Request, Resize, SharedSpace, Space, SpaceOptions, open};

/// From this size on a block is an area, if a handler names no other: below it guard pages and whole
/// pages cost more than they save.
pub(crate) const DEFAULT_THRESHOLD: usize = 32 << 10;

/// Freed memory that stays cached: as with the malloc.
const CACHE_BYTES: usize = 384 << 20;

/// From this size on the kernel is asked for huge pages, as numpy's own allocator does
/// (`NUMPY_MADVISE_HUGEPAGE`). A space aligns areas of this size for them.
const HUGE_FROM: usize = 4 << 20;

/// The least size of a huge page on the machines that numpy advises for.
const HUGE_PAGE: usize = 2 << 20;

/// The name that numpy looks for in the capsule of a handler.
const CAPSULE: &CStr = c"mem_handler";

/// `PyDataMemAllocator` of numpy's C interface.
#[repr(C)]
struct Allocator {
    context: *mut c_void,
    malloc: extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// `PyDataMem_Handler` of numpy's C interface, version 1.
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    allocator: Allocator,
}

impl Handler {
    /// Returns a handler that takes blocks of `threshold` bytes and more from the space. Its context is
    /// the threshold itself, and no address. A block of no bytes is never an area.
    fn new(threshold: usize) -> Self {
        let context = ptr::without_provenance_mut(threshold.max(1));
        let allocator = Allocator { context, malloc, calloc, realloc, free };
        Self { name: name(b"vmalloc"), version: 1, allocator }
    }
}

const fn name(text: &[u8]) -> [c_char; 127] {
    let (mut name, mut nth) = ([0; 127], 0);
    while nth < text.len() {
        name[nth] = text[nth] as c_char;
        nth += 1;
    }
    name
}

static SPACE: OnceLock<SharedSpace> = OnceLock::new();

/// Returns the space, which a handler that numpy has was made after.
fn space() -> Option<&'static Space<Linux>> {
    SPACE.get().map(|space| &**space)
}

/// Returns a new block of `bytes` bytes, or null.
fn alloc(threshold: usize, bytes: usize, zeroed: bool) -> *mut c_void {
    let request = if zeroed { Request::new(bytes).zeroed() } else { Request::new(bytes) };
    let space = if bytes >= threshold { space() } else { None };
    if let Some(addr) = space.and_then(|space| space.raw().alloc(&request).ok()) {
        if bytes >= HUGE_FROM {
            advise_huge(addr, bytes);
        }
        return ptr::with_exposed_provenance_mut(addr);
    }
    // Small, or the space has no room.
    // SAFETY: no conditions. A block of no bytes has an address, too.
    unsafe { if zeroed { libc::calloc(bytes.max(1), 1) } else { libc::malloc(bytes.max(1)) } }
}

/// Asks the kernel for huge pages behind the whole ones of a block, from their next touch on.
#[cold]
fn advise_huge(addr: usize, bytes: usize) {
    static IS_WANTED: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("NUMPY_MADVISE_HUGEPAGE").is_none_or(|value| value != "0"));
    let (start, end) = (addr.next_multiple_of(HUGE_PAGE), (addr + bytes) / HUGE_PAGE * HUGE_PAGE);
    if *IS_WANTED && start < end {
        // SAFETY: pages of a block that nobody has yet, and the advice changes no content. Where the
        // kernel refuses, base pages stay.
        unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Returns the space and the address of a block that is an area.
fn area(block: *mut c_void) -> Option<(&'static Space<Linux>, usize)> {
    space().filter(|space| space.contains(block.addr())).map(|space| (space, block.addr()))
}

extern "C" fn malloc(context: *mut c_void, bytes: usize) -> *mut c_void {
    alloc(context.addr(), bytes, false)
}

extern "C" fn calloc(context: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    count.checked_mul(bytes).map_or(ptr::null_mut(), |bytes| alloc(context.addr(), bytes, true))
}

/// # Safety
/// The block is null, or one of these functions' that the caller owns.
unsafe extern "C" fn realloc(context: *mut c_void, block: *mut c_void, bytes: usize) -> *mut c_void {
    let threshold = context.addr();
    let held = match area(block) {
        Some((space, addr)) if bytes >= threshold => {
            // SAFETY: the caller owns the block, which is an area, and goes on with the new address.
            let moved = unsafe { space.raw().realloc(addr, &Resize::new(bytes)) };
            return moved.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut);
        }
        Some((space, addr)) => space.usable_size(addr).unwrap_or(0),
        None if bytes < threshold || block.is_null() => {
            return if block.is_null() {
                alloc(threshold, bytes, false)
            } else {
                // SAFETY: a block of `malloc` that the caller owns.
                unsafe { libc::realloc(block, bytes.max(1)) }
            };
        }
        // SAFETY: a block of `malloc` that the caller owns.
        None => unsafe { libc::malloc_usable_size(block) },
    };
    let new = alloc(threshold, bytes, false);
    if !new.is_null() {
        // SAFETY: both blocks have that many bytes, and are two.
        unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), held.min(bytes)) };
        // SAFETY: the caller owns the old block, and goes on with the new one.
        unsafe { free(context, block, 0) };
    }
    new
}

/// # Safety
/// The block is null, or one of these functions' that the caller owns and uses no more.
unsafe extern "C" fn free(_: *mut c_void, block: *mut c_void, _: usize) {
    match area(block) {
        // SAFETY: the caller's promise. An area that is damaged stays, which harms no other.
        Some((space, addr)) => drop(unsafe { space.raw().free(addr) }),
        // SAFETY: null, or a block of `malloc` by the caller's promise.
        None => unsafe { libc::free(block) },
    }
}

/// Returns a handler for `set_numpy_handler`, and makes the space if there is none yet.
#[pyfunction]
pub(crate) fn numpy_handler(py: Python<'_>, threshold: Count) -> PyResult<Py<PyAny>> {
    if SPACE.get().is_none() {
        let made = py.detach(|| {
            open(
                LinuxOptions::new().frame_bytes(0).populate(true).name(c"vmalloc numpy"),
                SpaceOptions::default().cache_bytes(CACHE_BYTES),
            )
        });
        let space = made.map_err(|error| PyOSError::new_err(error.to_string()))?;
        // Of two threads the first wins; the space of the other ends here.
        let _ = SPACE.set(space);
    }
    let handler = Box::into_raw(Box::new(Handler::new(threshold.0)));
    // SAFETY: the handler lives until the capsule's destructor; the name is a static C string.
    let capsule = unsafe { ffi::PyCapsule_New(handler.cast(), CAPSULE.as_ptr(), Some(drop_handler)) };
    if capsule.is_null() {
        // SAFETY: no capsule owns it.
        drop(unsafe { Box::from_raw(handler) });
    }
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }.map(Bound::unbind)
}

/// Ends a handler. Each array of its blocks holds a reference to the capsule, so none is left.
///
/// # Safety
/// It is called by Python alone, for a capsule of `numpy_handler`, once.
unsafe extern "C" fn drop_handler(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name, which Python ends.
    let handler = unsafe { ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()) };
    // SAFETY: `numpy_handler` made it from a box, and only this function ends it.
    drop(unsafe { Box::from_raw(handler.cast::<Handler>()) });
}

/// The place of `PyDataMem_SetHandler` in numpy's table of functions.
const SET_HANDLER: usize = 304;

/// Sets the handler of the calling context, and returns the one before.
#[pyfunction]
pub(crate) fn set_numpy_handler(py: Python<'_>, handler: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    // SAFETY: an object that the caller holds.
    let is_handler = unsafe { ffi::PyCapsule_IsValid(handler.as_ptr(), CAPSULE.as_ptr()) };
    if is_handler == 0 {
        return Err(PyImportError::new_err("no handler of numpy's data"));
    }
    let module =
        py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
    let table = module.getattr("_ARRAY_API")?;
    // SAFETY: an object that is held here. Its name is none, as numpy makes it.
    let table = unsafe { ffi::PyCapsule_GetPointer(table.as_ptr(), ptr::null()) }.cast::<*const c_void>();
    if table.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: numpy's table has this function at this place since 1.22, which the package checks.
    let set = unsafe {
        std::mem::transmute::<*const c_void, extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject>(
            *table.add(SET_HANDLER),
        )
    };
    let before = set(handler.as_ptr());
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, before) }.map(Bound::unbind)
}

/// Returns whether an address lies in the space of numpy's data.
#[pyfunction]
pub(crate) fn is_managed_address(addr: usize) -> bool {
    space().is_some_and(|space| space.contains(addr))
}

/// Returns counts of the space of numpy's data, as Space.stats() does; None before its first use.
#[pyfunction]
pub(crate) fn numpy_stats(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    space().map(|space| counts(py, space)).transpose()
}
