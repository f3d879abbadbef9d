//! Mappings of frames, as handles that keep the frames alive.

use crate::answer::{self, given};
use crate::error::vmalloc_error;
use crate::frames::vmalloc_frames;
use crate::input;
use crate::space::on;
use libc::c_void;
use std::any::Any;
use std::sync::Arc;
use vmalloc_linux::{Mapping, ReadOnlyMapping};
use vmalloc_short::{ShortMapping, ShortMaps};

/// Map the frames for reading alone.
pub const VMALLOC_MAP_READ_ONLY: u32 = 1;
/// Map the frames for a short while: cheap, writable, and without a guard page.
pub const VMALLOC_MAP_SHORT: u32 = 2;

/// A mapping of frames. It keeps the frames, and ends with its handle.
pub struct vmalloc_mapping {
    /// A mapping of any kind, owned to end it.
    _owner: Box<dyn Any>,
    addr: usize,
    bytes: usize,
}

/// Returns the address of a mapping, and its owner.
fn owned<M: 'static>(mapping: M, addr: fn(&M) -> usize) -> (usize, Box<dyn Any>) {
    (addr(&mapping), Box::new(mapping))
}

/// Maps all frames, in their order, to consecutive pages. Without flags the mapping is writable and
/// a guard page follows.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_mapping_new(
    frames: *const vmalloc_frames,
    flags: u32,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_mapping {
    call!(handle, detail; frames => {
        let flags = input::flags(flags, VMALLOC_MAP_READ_ONLY | VMALLOC_MAP_SHORT)?;
        let (pages, (addr, owner)) = on!(&frames.0, it => (it.len(), match flags {
            0 => owned(Mapping::new(it)?, Mapping::addr),
            VMALLOC_MAP_READ_ONLY => owned(ReadOnlyMapping::new(it)?, ReadOnlyMapping::addr),
            VMALLOC_MAP_SHORT => {
                let short = Box::new(ShortMaps::of(Arc::clone(it.space()))?);
                owned(ShortMapping::new(short, it)?, ShortMapping::addr)
            }
            both => return Err(answer::Argument::Flags(both).into()),
        }));
        Ok(vmalloc_mapping { _owner: owner, addr, bytes: pages * answer::page_bytes() })
    })
}

/// Returns the address of the first byte, or `NULL` for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_mapping_addr(mapping: *const vmalloc_mapping) -> *mut c_void {
    // SAFETY: the conditions of every call.
    let addr = unsafe { given(mapping) }.map_or(0, |mapping| mapping.addr);
    std::ptr::with_exposed_provenance_mut(addr)
}

/// Returns the bytes that a mapping shows, and 0 for `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_mapping_size(mapping: *const vmalloc_mapping) -> usize {
    // SAFETY: the conditions of every call.
    unsafe { given(mapping) }.map_or(0, |mapping| mapping.bytes)
}

/// Ends a mapping. Its addresses are flushed before they are handed out again. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle and its addresses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_mapping_free(mapping: *mut vmalloc_mapping) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(mapping) };
}
