//! Areas: memory and addresses, by their first byte.

use crate::answer::Refusal;
use crate::error::vmalloc_error;
use crate::options::{self, vmalloc_request};
use crate::space::{Of, on, vmalloc_space};
use libc::{c_int, c_void};
use std::alloc::Layout;
use vmalloc_linux::{Request, RequestError, page_bytes};

/// Allocates memory of at least `bytes` bytes, of any content, with an unmapped guard page behind
/// it. It starts at a page. `vmalloc_free` frees it.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc(
    space: *mut vmalloc_space,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    // SAFETY: the conditions of every call.
    if let Some(vmalloc_space(Of::Whole(it), _)) = unsafe { space.as_ref() } {
        let addr = it.raw().alloc_from_node(bytes, 1);
        if addr != 0 {
            return std::ptr::with_exposed_provenance_mut(addr);
        }
    }
    // SAFETY: the conditions of every call.
    unsafe { alloc_slow(space, bytes, detail) }
}

/// Allocates in any case. Apart, and called last, so that the common way remembers nothing over it.
///
/// # Safety
/// The conditions of every call.
#[cold]
#[inline(never)]
unsafe extern "C" fn alloc_slow(
    space: *mut vmalloc_space,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    let request = Request::new(bytes);
    call!(address, detail; space => on!(&space.0, it => Ok(it.raw().alloc(&request)?)))
}

/// Allocates memory of `bytes` bytes that are zero: see `vmalloc_alloc`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_zalloc(
    space: *mut vmalloc_space,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    let request = Request::new(bytes).zeroed();
    call!(address, detail; space => on!(&space.0, it => Ok(it.raw().alloc(&request)?)))
}

/// Allocates memory as a request says. `vmalloc_free` frees it.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_with(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    // SAFETY: the conditions of every call.
    match unsafe { take_usual(space, request, false) } {
        Some(memory) => memory,
        None => call!(address, detail; space, request = options::request(request) => {
            on!(&space.0, it => Ok(it.raw().alloc(&request)?))
        }),
    }
}

/// Takes an area of this CPU's node as a request says, if that asks for nothing rare, and there is
/// one.
///
/// # Safety
/// The conditions of every call.
#[inline(always)]
unsafe fn take_usual(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    is_reserved: bool,
) -> Option<*mut c_void> {
    // SAFETY: the caller's condition.
    let Some(vmalloc_space(Of::Whole(it), _)) = (unsafe { space.as_ref() }) else { return None };
    // SAFETY: the caller's condition.
    let request = unsafe { options::usual_request(request) }?;
    let addr = it.raw().reuse_noted(&request, is_reserved);
    (addr != 0).then(|| std::ptr::with_exposed_provenance_mut(addr))
}

/// Frees memory of `vmalloc_alloc`, `vmalloc_zalloc`, `vmalloc_alloc_with`, `vmalloc_alloc_shared`
/// or `vmalloc_alloc_exec`, on any thread. `NULL` is allowed. It answers `-EALREADY` for an area
/// that was freed before, `-EFAULT` for an address in no area, `-EINVAL` for one inside an area,
/// and changes nothing then. Cached pages keep what the program has done to them by system calls
/// (locks, protection, advice): see `vmalloc_free_altered`.
///
/// # Safety
/// The memory is the caller's, who uses it no more. A free that comes after the addresses were
/// handed out again is not caught: it frees the new owner's area.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    // SAFETY: the conditions of every call.
    if let Some(vmalloc_space(Of::Whole(it), _)) = unsafe { space.as_ref() } {
        // SAFETY: the caller owns the memory, and uses it no more.
        if unsafe { it.raw().free_to_node(memory.addr()) } {
            return 0;
        }
    }
    // SAFETY: the caller's conditions.
    unsafe { free_noted(space, memory, detail) }
}

/// Frees an area with a record in the common case.
///
/// # Safety
/// That of [`vmalloc_free`].
#[cold]
#[inline(never)]
unsafe extern "C" fn free_noted(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    // SAFETY: the conditions of every call.
    if let Some(vmalloc_space(Of::Whole(it), _)) = unsafe { space.as_ref() } {
        // SAFETY: the caller owns the memory, and uses it no more.
        if unsafe { it.raw().free_noted_to_node(memory.addr(), false) } {
            return 0;
        }
    }
    // SAFETY: the caller's conditions.
    unsafe { free_slow(space, memory, detail) }
}

/// Frees memory by a call of the space's own. Null is none.
macro_rules! frees {
    ($space:ident, $memory:ident, $detail:ident, $free:ident) => {
        call!(code, $detail; $space => match $memory.is_null() {
            true => Ok(()),
            // SAFETY: the caller owns the memory, and uses it no more.
            false => on!(&$space.0, it => Ok(unsafe { it.raw().$free($memory.addr()) }?)),
        })
    };
}

/// Frees in any case, as [`alloc_slow`] allocates.
///
/// # Safety
/// That of [`vmalloc_free`].
#[cold]
#[inline(never)]
unsafe extern "C" fn free_slow(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    frees!(space, memory, detail, free)
}

/// Frees memory whose pages the program has locked, protected or advised about. They are never
/// cached, so the next owner gets plain ones.
///
/// # Safety
/// That of `vmalloc_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free_altered(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    frees!(space, memory, detail, free_altered)
}

/// Frees memory where the caller may not wait: in a signal handler. It takes no lock that is held,
/// makes no thread, and leaves `errno` alone. It answers `-EAGAIN` if it would have to wait.
///
/// # Safety
/// That of `vmalloc_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free_atomic(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    frees!(space, memory, detail, free_atomic)
}

/// Reserves addresses without memory, as a request says: for mappings of the program's own, or to
/// be committed in parts. `vmalloc_unreserve` frees them.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_reserve(
    space: *mut vmalloc_space,
    request: *const vmalloc_request,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    // SAFETY: the conditions of every call.
    match unsafe { take_usual(space, request, true) } {
        Some(addresses) => addresses,
        None => call!(address, detail; space, request = options::request(request) => {
            on!(&space.0, it => Ok(it.raw().reserve(&request)?))
        }),
    }
}

/// Frees addresses of `vmalloc_reserve`. Memory that was committed or mapped there ends.
///
/// # Safety
/// The addresses are the caller's, who uses neither them nor what is mapped there any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_unreserve(
    space: *mut vmalloc_space,
    addr: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    // SAFETY: the conditions of every call.
    if let Some(vmalloc_space(Of::Whole(it), _)) = unsafe { space.as_ref() } {
        // SAFETY: the caller owns the addresses, and uses them no more.
        if unsafe { it.raw().free_noted_to_node(addr.addr(), true) } {
            return 0;
        }
    }
    call!(code, detail; space => {
        // SAFETY: as above.
        on!(&space.0, it => Ok(unsafe { it.raw().unreserve(addr.addr()) }?))
    })
}

/// Allocates `bytes` bytes aligned to `align`, a power of two: from the heap of the C library up to
/// a page, and from the space above that. `vmalloc_free_or_heap` frees it.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_alloc_or_heap(
    space: *mut vmalloc_space,
    bytes: usize,
    align: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    call!(address, detail; space => {
        let layout = layout(bytes, align)?;
        // SAFETY: the size is not zero.
        let on_heap = (layout.size() <= page_bytes()).then(|| unsafe { std::alloc::alloc(layout) });
        if let Some(memory) = on_heap.filter(|memory| !memory.is_null()) {
            return Ok(memory.expose_provenance());
        }
        on!(&space.0, it => Ok(it.raw().alloc(&Request::from(layout))?))
    })
}

/// Frees memory of `vmalloc_alloc_or_heap`. `NULL` is allowed.
///
/// # Safety
/// The memory came from that call of this space, with this size and alignment. The caller uses it
/// no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_free_or_heap(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    bytes: usize,
    align: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        let layout = layout(bytes, align)?;
        if memory.is_null() {
            return Ok(());
        }
        if on!(&space.0, it => it.contains(memory.addr())) {
            // SAFETY: the caller's area, which nothing uses any more.
            return on!(&space.0, it => Ok(unsafe { it.raw().free(memory.addr()) }?));
        }
        // SAFETY: an address outside the space came from the heap, with this layout.
        unsafe { std::alloc::dealloc(memory.cast(), layout) };
        Ok(())
    })
}

fn layout(bytes: usize, align: usize) -> Result<Layout, Refusal> {
    if bytes == 0 {
        return Err(RequestError::ZeroSize.into());
    }
    if !align.is_power_of_two() {
        return Err(RequestError::AlignNotPowerOfTwo { align: align as u64 }.into());
    }
    Layout::from_size_align(bytes, align).map_err(|_| RequestError::SizeOverflow { bytes }.into())
}
