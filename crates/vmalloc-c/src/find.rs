//! Areas found by any address inside.

use crate::answer::{Refusal, given};
use crate::error::vmalloc_error;
use crate::input::{self, Versioned};
use crate::space::{on, vmalloc_space};
use libc::{c_char, c_int, c_void};
use vmalloc_linux::{AreaInfo, FreeError, Kind};

/// Memory of its own.
pub const VMALLOC_KIND_MEMORY: u32 = 1;
/// Addresses alone.
pub const VMALLOC_KIND_RESERVED: u32 = 2;
/// Frames that the caller has mapped.
pub const VMALLOC_KIND_MAPPING: u32 = 3;
/// Memory of a device.
pub const VMALLOC_KIND_DEVICE: u32 = 4;
/// Memory that can be shown at other addresses as well.
pub const VMALLOC_KIND_SHARED: u32 = 5;
/// Memory for code.
pub const VMALLOC_KIND_EXEC: u32 = 6;
/// One of a group of congruent areas.
pub const VMALLOC_KIND_CONGRUENT: u32 = 7;
/// A block of short mappings.
pub const VMALLOC_KIND_BLOCK: u32 = 8;
/// A short mapping too large for a block.
pub const VMALLOC_KIND_SHORT: u32 = 9;

/// An area in use.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_area {
    /// `sizeof(vmalloc_area)`: `VMALLOC_AREA_INIT` sets it.
    pub size: usize,
    /// The address of its first byte.
    pub addr: usize,
    /// The bytes of its pages.
    pub bytes: usize,
    /// Its pages, without the guard.
    pub pages: u64,
    /// One of `VMALLOC_KIND_...`, or 0 for one that this version does not know.
    pub kind: u32,
    /// 1 if a guard page is behind it.
    pub guard: u32,
    /// The name of its owner, or an empty string.
    pub tag: [c_char; 32],
    /// The number that its owner gave it, or 0.
    pub record: u64,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_area {
    const FIRST: usize = 72;
}

const _: () = assert!(size_of::<vmalloc_area>() == 4 * 8 + 2 * 4 + 32 + 8);

impl From<AreaInfo> for vmalloc_area {
    fn from(area: AreaInfo) -> Self {
        let mut tag = [0; 32];
        let name = area.tag.as_deref().unwrap_or_default();
        tag.iter_mut().zip(name.bytes().take(31)).for_each(|(to, byte)| *to = byte as c_char);
        Self {
            size: size_of::<Self>(),
            addr: area.addr,
            bytes: area.bytes,
            pages: area.pages,
            kind: number(&area),
            guard: area.guard.into(),
            tag,
            record: area.record,
        }
    }
}

fn number(area: &AreaInfo) -> u32 {
    match area.kind {
        Kind::Tenant => VMALLOC_KIND_BLOCK,
        _ if area.tag.as_deref() == Some(vmalloc_short::TAG) => VMALLOC_KIND_SHORT,
        Kind::Reserved if area.tag.as_deref() == Some(vmalloc_percpu::TAG) => VMALLOC_KIND_CONGRUENT,
        Kind::Vmalloc => VMALLOC_KIND_MEMORY,
        Kind::Reserved => VMALLOC_KIND_RESERVED,
        Kind::Vmap => VMALLOC_KIND_MAPPING,
        Kind::IoMap => VMALLOC_KIND_DEVICE,
        Kind::Shared => VMALLOC_KIND_SHARED,
        Kind::Exec => VMALLOC_KIND_EXEC,
        _ => 0,
    }
}

fn not_an_area(addr: usize) -> Refusal {
    FreeError::NotAnArea { addr }.into()
}

/// Finds the area that holds `addr`, anywhere inside, and tells it in `*area`. Without a lock as a
/// rule. It answers `-EFAULT` where no area is.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_find(
    space: *const vmalloc_space,
    addr: *const c_void,
    area: *mut vmalloc_area,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > area, detail; space => {
        on!(&space.0, it => it.find(addr.addr())).ok_or_else(|| not_an_area(addr.addr()))?
    })
}

/// Finds the area that holds `addr` without waiting for any lock: also in a signal handler. It
/// leaves `errno` alone. It answers `-EAGAIN` if it would have to wait, and `-EFAULT` where no area
/// is.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_try_find(
    space: *const vmalloc_space,
    addr: *const c_void,
    area: *mut vmalloc_area,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code > area, detail; space => {
        on!(&space.0, it => it.try_find(addr.addr()))?.ok_or_else(|| not_an_area(addr.addr()))?
    })
}

/// Returns how many bytes of the memory at `memory` can be used: at least as many as were asked
/// for. It is 0 where no area starts.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_usable_size(space: *const vmalloc_space, memory: *const c_void) -> usize {
    // SAFETY: the conditions of every call.
    let size = unsafe { given(space) }.map(|space| on!(&space.0, it => it.usable_size(memory.addr())));
    size.ok().flatten().unwrap_or(0)
}

/// Gives the area at `memory`, of any kind, the number `record`, as the field of a request does.
///
/// # Safety
/// The caller owns the area.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_set_record(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    record: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        // SAFETY: the caller owns the area.
        on!(&space.0, it => Ok(unsafe { it.raw().set_record(memory.addr(), record) }?))
    })
}

/// Frees an area of any kind that one call frees, and tells in `*area`, which may be `NULL`, what
/// it was.
///
/// # Safety
/// That of the call which frees areas of its kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_remove(
    space: *mut vmalloc_space,
    memory: *mut c_void,
    area: *mut vmalloc_area,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        if !area.is_null() {
            // SAFETY: the conditions of every call.
            unsafe { input::size_of_given(area) }?;
        }
        // SAFETY: the caller owns the area, and uses it no more.
        let removed: AreaInfo = on!(&space.0, it => unsafe { it.raw().remove(memory.addr()) })?;
        match area.is_null() {
            true => Ok(()),
            // SAFETY: the conditions of every call.
            false => unsafe { input::fill(area, &removed.into()) },
        }
    })
}
