//! Roots: addresses divided among named sub-spaces.

use crate::answer::{self, Argument, Refusal};
use crate::error::vmalloc_error;
use crate::input::{self, Versioned};
use crate::names;
use crate::options::vmalloc_options;
use crate::space::{Of, vmalloc_space};
use crate::stats::tell_if_asked;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use vmalloc_linux::{Error, Linux, Policy, Request, RequestError, ReserveError, page_bytes};
use vmalloc_subspaces::{Root, SubspaceInfo, SubspaceState};

/// A reservation that is divided among sub-spaces.
pub struct vmalloc_root(Root<Linux>);

/// Put the sub-space at the highest free addresses, not the lowest.
pub const VMALLOC_PLACE_HIGHEST: u32 = 1;
/// Put the sub-space at `start` exactly.
pub const VMALLOC_PLACE_AT: u32 = 2;
/// Put the sub-space as near to `start` as can be.
pub const VMALLOC_PLACE_NEAR: u32 = 4;

/// Where a sub-space is put, and how much it may use.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_placement {
    /// `sizeof(vmalloc_placement)`: `VMALLOC_PLACEMENT_INIT` sets it.
    pub size: usize,
    /// Bytes of addresses, rounded up to pages.
    pub bytes: usize,
    /// The alignment in bytes, a power of two, or 0.
    pub align: usize,
    /// The first address, of a page, with `VMALLOC_PLACE_AT`, or any address with
    /// `VMALLOC_PLACE_NEAR`.
    pub start: usize,
    /// The most memory that may be mapped at once, cached memory included. 0 is no limit.
    pub limit_bytes: usize,
    /// Any of `VMALLOC_PLACE_...`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// The lowest address allowed, but with `VMALLOC_PLACE_AT`. Without limits it is 0, and so is
    /// `range_end`.
    pub range_start: usize,
    /// The address behind the last one allowed.
    pub range_end: usize,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_placement {
    const FIRST: usize = 48;
}

const _: () = assert!(size_of::<vmalloc_placement>() == 7 * 8 + 2 * 4);

/// The sub-space lives.
pub const VMALLOC_SUBSPACE_LIVE: u32 = 0;
/// A thread is making the sub-space, or reclaiming its addresses.
pub const VMALLOC_SUBSPACE_CHANGING: u32 = 1;
/// The sub-space was closed, and the system has refused to unmap its memory so far.
pub const VMALLOC_SUBSPACE_LINGERING: u32 = 2;

/// A sub-space, as its root knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_subspace_info {
    /// Its size in bytes, as the library has it.
    pub size: usize,
    /// Its name, which is never freed.
    pub name: *const c_char,
    /// Its first address.
    pub start: usize,
    /// The address behind its last.
    pub end: usize,
    /// The most memory that may be mapped in it, or 0.
    pub limit_bytes: usize,
    /// Memory that is mapped in it, or not flushed yet.
    pub used_bytes: usize,
    /// One of `VMALLOC_SUBSPACE_...`.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

/// A function that is called for a sub-space. Another answer than 0 ends the walk.
pub type vmalloc_subspace_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, info: *const vmalloc_subspace_info) -> c_int>;

/// Reserves addresses that are divided among sub-spaces. `options` may be `NULL`. Of those that
/// concern a space only `VMALLOC_OPEN_TRAP_ON_FREE` has an effect, with `cache_bytes`: guards are
/// chosen that suit sub-spaces with that flag. Each sub-space has options of its own.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_root_open(
    options: *const vmalloc_options,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_root {
    call!(handle, detail => {
        // SAFETY: the conditions of every call.
        let (linux, space) = unsafe { input::read_or_default(options)?.split() }?;
        let platform = Linux::reserve(linux, &space).map_err(Error::from)?;
        Ok(vmalloc_root(vmalloc_linux::open_root(platform)?))
    })
}

/// Gives the handle of a root up. Its sub-spaces live on. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_root_close(root: *mut vmalloc_root) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(root) };
}

/// Makes a sub-space: a space like any other, on a part of the addresses that is its own until
/// `vmalloc_close`. `name`, of which no two have the same, is copied and never freed. `options` may
/// be `NULL`, and leaves the settings of a reservation out. No thread drains a sub-space in the
/// background: see `vmalloc_drain`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_subspace_open(
    root: *mut vmalloc_root,
    name: *const c_char,
    placement: *const vmalloc_placement,
    options: *const vmalloc_options,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_space {
    call!(handle, detail; root, given = input::read(placement) => {
        // SAFETY: the conditions of every call.
        let options = unsafe { input::read_or_default(options) }?;
        // SAFETY: the conditions of every call.
        unsafe { input::name(name) }?.filter(|name| !name.is_empty()).ok_or(Argument::Name)?;
        // SAFETY: it is a string, as was seen above.
        let name = names::lasting(unsafe { CStr::from_ptr(name) });
        let name = name.to_str().map_err(|_| Argument::Name)?;
        let limit = Some(given.limit_bytes).filter(|&bytes| bytes != 0);
        let space = root.0.subspace(name, &request(&given)?, limit, options.of_subspace()?)?;
        let space = vmalloc_linux::share(space)?;
        vmalloc_space::new(Of::Part(space), options.block_slots)
    })
}

fn request(given: &vmalloc_placement) -> Result<Request, Refusal> {
    if given.reserved != 0 {
        return Err(Argument::Value(given.reserved).into());
    }
    let mut request = Request::new(given.bytes);
    let limits = (given.range_start, given.range_end);
    if limits != (0, 0) {
        request = request.within(limits.0, limits.1);
    }
    let known = VMALLOC_PLACE_HIGHEST | VMALLOC_PLACE_AT | VMALLOC_PLACE_NEAR;
    let request = match input::flags(given.flags, known)? {
        VMALLOC_PLACE_AT if given.align == 0 && limits == (0, 0) => {
            let page_bytes = page_bytes();
            if given.start % page_bytes != 0 {
                let refusal = ReserveError::NotPageMultiple { bytes: given.start, page_bytes };
                return Err(Error::from(refusal).into());
            }
            let whole = given.bytes.checked_next_multiple_of(page_bytes);
            let end = whole.and_then(|bytes| given.start.checked_add(bytes));
            let end = end.ok_or(RequestError::SizeOverflow { bytes: given.bytes })?;
            return Ok(request.within(given.start, end));
        }
        VMALLOC_PLACE_NEAR => request.near(given.start),
        _ if given.start != 0 => return Err(Argument::Flags(given.flags).into()),
        0 => request,
        VMALLOC_PLACE_HIGHEST => request.policy(Policy::Highest),
        both => return Err(Argument::Flags(both).into()),
    };
    Ok(if given.align == 0 { request } else { request.align(given.align) })
}

/// Tells the addresses of a root. Either may be `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_root_span(
    root: *const vmalloc_root,
    start: *mut usize,
    end: *mut usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; root => {
        let (first, last) = answer::bounds(vmalloc_linux::Platform::geometry(root.0.platform()).span);
        // SAFETY: the conditions of every call.
        unsafe { (tell_if_asked(start, first), tell_if_asked(end, last)) };
        Ok(())
    })
}

/// Calls `callback` for each sub-space, in address order. Returns 0 after the last, or the answer
/// that ended the walk.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_root_walk(
    root: *const vmalloc_root,
    callback: vmalloc_subspace_callback,
    context: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(number, detail; root => {
        // SAFETY: the caller gave the function and its context.
        let visit = unsafe { answer::asking(callback, context) }?;
        Ok(root.0.subspaces().find_map(visit).unwrap_or(0))
    })
}

impl From<SubspaceInfo> for vmalloc_subspace_info {
    fn from(info: SubspaceInfo) -> Self {
        let (start, end) = answer::bounds(info.range);
        Self {
            size: size_of::<Self>(),
            // Names come from `lasting`, so a zero byte is behind them.
            name: info.name.as_ptr().cast(),
            start,
            end,
            limit_bytes: info.limit_bytes.unwrap_or(0),
            used_bytes: info.used_bytes,
            state: match info.state {
                SubspaceState::Live => VMALLOC_SUBSPACE_LIVE,
                SubspaceState::Changing => VMALLOC_SUBSPACE_CHANGING,
                _ => VMALLOC_SUBSPACE_LINGERING,
            },
            reserved: 0,
        }
    }
}
