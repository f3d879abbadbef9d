//! Another size for an area.

use crate::answer::Refusal;
use crate::error::vmalloc_error;
use crate::options::vmalloc_resize;
use crate::space::{on, vmalloc_space};
use libc::{c_int, c_void};
use vmalloc_linux::{Request, Resize};

/// Makes memory of `vmalloc_alloc` larger or smaller, and returns where it is now. The content is
/// kept as far as it fits, and so is everything that the request for the memory said. It grows in
/// place where the addresses behind it are free, is copied where freed memory of the new size
/// waits, or its pages move without being copied. `NULL` allocates. A failed call leaves the memory
/// as it was.
///
/// # Safety
/// The memory is the caller's. If another address is returned, the caller uses the old one no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_realloc(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    // SAFETY: the caller's conditions.
    call!(address, detail; space => unsafe { realloc(space, memory, &Resize::new(bytes), &Request::new(bytes)) })
}

/// Makes memory of `vmalloc_alloc` as large and as aligned as `resize` says. With `VMALLOC_ZERO`
/// new bytes are zero, if that flag was in each call for this memory. See `vmalloc_realloc`.
///
/// # Safety
/// That of `vmalloc_realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_realloc_with(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    resize: *const vmalloc_resize,
    detail: *mut vmalloc_error,
) -> *mut c_void {
    // SAFETY: the caller's conditions.
    call!(address, detail; space, asked = vmalloc_resize::split(resize) => unsafe {
        realloc(space, memory, &asked.0, &asked.1)
    })
}

/// Gives an area another size, or allocates.
///
/// # Safety
/// That of [`vmalloc_realloc`].
unsafe fn realloc(
    space: &vmalloc_space,
    memory: *mut c_void,
    resize: &Resize,
    request: &Request,
) -> Result<usize, Refusal> {
    if memory.is_null() {
        return on!(&space.0, it => Ok(it.raw().alloc(request)?));
    }
    // SAFETY: the caller owns the memory, and uses the old address no more.
    on!(&space.0, it => Ok(unsafe { it.raw().realloc(memory.addr(), resize) }?))
}

/// Makes memory of `vmalloc_alloc` larger without moving it. It answers `-EEXIST` if the addresses
/// behind it are taken.
///
/// # Safety
/// The memory is the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_grow_in_place(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller owns the memory.
        on!(&space.0, it => Ok(unsafe { it.raw().grow_in_place(memory.addr(), bytes) }?))
    })
}

/// Makes memory of `vmalloc_alloc` smaller without moving it. Pages that it no longer needs are
/// given back at once.
///
/// # Safety
/// The memory is the caller's, who uses the bytes behind the new size no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_shrink_in_place(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    bytes: usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller owns the memory, and uses no byte behind the new size.
        on!(&space.0, it => Ok(unsafe { it.raw().shrink_in_place(memory.addr(), bytes) }?))
    })
}
