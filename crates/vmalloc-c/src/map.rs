//! The address map alone: numbers are handed out, and no memory is behind them.

use crate::answer::{self, Argument, Refusal};
use crate::error::vmalloc_error;
use crate::input::{self, Versioned};
use crate::options;
use crate::stats::tell;
use libc::{c_int, c_void};
use vmalloc_linux::area_map::{Segment, State};
use vmalloc_linux::{AreaMap, Fit, NoArea, PageRange};

/// A map of numbers: addresses of a device, ids, blocks of a file. Its unit, a page, is whatever
/// the program says. It has no lock: one thread at a time uses it, or several only ask.
pub struct vmalloc_map {
    pub(crate) map: AreaMap<'static>,
    /// The map lies in memory of the caller's.
    is_lent: bool,
}

/// A request for numbers of a map. Zero is the default of each field but `pages`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_fit {
    /// `sizeof(vmalloc_fit)`: `VMALLOC_FIT_INIT` sets it.
    pub size: usize,
    /// Pages asked for, not 0.
    pub pages: u64,
    /// The start is a multiple of this, a power of two.
    pub align: u64,
    /// The first page allowed.
    pub start: u64,
    /// The page behind the last one allowed. Without limits both are 0.
    pub end: u64,
    /// The seed of `VMALLOC_POLICY_RANDOM`, or the page of `VMALLOC_POLICY_NEAR`.
    pub seed: u64,
    /// One of `VMALLOC_POLICY_...`.
    pub policy: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_fit {
    const FIRST: usize = 56;
}

const _: () = assert!(size_of::<vmalloc_fit>() == 6 * 8 + 2 * 4);

/// A free range.
pub const VMALLOC_SEGMENT_FREE: u32 = 0;
/// An area that was handed out.
pub const VMALLOC_SEGMENT_BUSY: u32 = 1;
/// An area that was freed and waits.
pub const VMALLOC_SEGMENT_RETIRED: u32 = 2;

/// A run of pages of a map in one state. Segments follow each other without gaps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct vmalloc_segment {
    /// `sizeof(vmalloc_segment)`: `VMALLOC_SEGMENT_INIT` sets it.
    pub size: usize,
    /// The first page.
    pub start: u64,
    /// The page behind the last.
    pub end: u64,
    /// One of `VMALLOC_SEGMENT_...`.
    pub state: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, numbers, the size first; the assertion below excludes padding.
unsafe impl Versioned for vmalloc_segment {
    const FIRST: usize = 32;
}

const _: () = assert!(size_of::<vmalloc_segment>() == 3 * 8 + 2 * 4);

impl From<Segment> for vmalloc_segment {
    fn from(segment: Segment) -> Self {
        Self {
            size: size_of::<Self>(),
            start: segment.range.start(),
            end: segment.range.end(),
            state: match segment.state {
                State::Free => VMALLOC_SEGMENT_FREE,
                State::Busy => VMALLOC_SEGMENT_BUSY,
                State::Retired => VMALLOC_SEGMENT_RETIRED,
            },
            reserved: 0,
        }
    }
}

/// A function that is called for a segment. Another answer than 0 ends the walk.
pub type vmalloc_segment_callback =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, segment: *const vmalloc_segment) -> c_int>;

/// Returns the map of a handle, to be changed.
///
/// # Safety
/// It is null, or a handle that no other thread uses meanwhile.
pub(crate) unsafe fn owned<'a>(map: *mut vmalloc_map) -> Result<&'a mut AreaMap<'static>, Refusal> {
    // SAFETY: the caller's condition.
    unsafe { map.as_mut() }.map(|map| &mut map.map).ok_or_else(|| Argument::Null.into())
}

/// Makes a map of the pages `[start, end)`, all free, with its records on the heap.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_new(
    start: u64,
    end: u64,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_map {
    call!(handle, detail => {
        Ok(vmalloc_map { map: AreaMap::new(PageRange::try_from(start..end)?)?, is_lent: false })
    })
}

/// Makes a map of the pages `[start, end)` in memory of the program's: handle and records. It works
/// without a heap. It takes 16 KiB, and 350 bytes for each 256 aligned pages in which segments
/// start. When the memory is used up, calls answer `VMALLOC_E_METADATA`.
///
/// # Safety
/// The memory has `bytes` bytes, and is the map's alone until `vmalloc_map_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_new_in(
    memory: *mut c_void,
    bytes: usize,
    start: u64,
    end: u64,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_map {
    let make = || {
        let span = PageRange::try_from(start..end)?;
        if memory.is_null() {
            return Err(Argument::Null.into());
        }
        let lead = memory.cast::<u8>().align_offset(align_of::<vmalloc_map>());
        let head = lead.saturating_add(size_of::<vmalloc_map>());
        let Some(rest) = bytes.checked_sub(head).filter(|_| bytes <= isize::MAX as usize) else {
            return Err(Refusal::Metadata);
        };
        // SAFETY: the memory is the map's, and these bytes of it lie behind the handle. They are
        // made values first.
        let records = unsafe {
            let records = memory.cast::<u8>().add(head);
            records.write_bytes(0, rest);
            std::slice::from_raw_parts_mut(records, rest)
        };
        let map = vmalloc_map { map: AreaMap::in_buffer(span, records)?, is_lent: true };
        // SAFETY: there is room for the handle, which is aligned.
        unsafe {
            let handle = memory.cast::<u8>().add(lead).cast::<vmalloc_map>();
            handle.write(map);
            Ok(handle)
        }
    };
    match make() {
        Ok(handle) => handle,
        // SAFETY: the conditions of every call.
        Err(refusal) => unsafe { answer::refuse_pointer(refusal, detail) },
    }
}

/// Makes a copy of a map, with its records on the heap.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_copy(
    map: *const vmalloc_map,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_map {
    call!(handle, detail; map => Ok(vmalloc_map { map: map.map.try_clone()?, is_lent: false }))
}

/// Ends a map. Memory that it was made in is the program's again. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_free(map: *mut vmalloc_map) {
    // SAFETY: the conditions of every call.
    match unsafe { map.as_ref() } {
        // SAFETY: it was written there, and is dropped once.
        Some(lent) if lent.is_lent => unsafe { map.drop_in_place() },
        // SAFETY: the caller's condition.
        _ => unsafe { answer::end(map) },
    }
}

/// Hands out pages as `fit` says, and tells the first. O(log n), and exact: what fits is found.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_alloc(
    map: *mut vmalloc_map,
    fit: *const vmalloc_fit,
    start: *mut u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map), fit = self::fit(&input::read(fit)?) => {
        if start.is_null() {
            return Err(Argument::Null.into());
        }
        // SAFETY: the conditions of every call.
        unsafe { tell(start, map.alloc(&fit)?.start()) }
    })
}

fn fit(given: &vmalloc_fit) -> Result<Fit, Refusal> {
    let mut fit = Fit::new(given.pages);
    if given.reserved != 0 {
        return Err(Argument::Value(given.reserved).into());
    }
    options::built!(fit; align(given.align) if given.align != 0);
    if (given.start, given.end) != (0, 0) {
        fit = fit.within(given.start, given.end);
    }
    if given.policy != 0 {
        fit = fit.policy(options::policy(given.policy, given.seed)?);
    }
    Ok(fit)
}

/// Hands out exactly the pages `[start, end)`. It answers `-EEXIST` if they are not all free.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_alloc_at(
    map: *mut vmalloc_map,
    start: u64,
    end: u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => Ok(map.alloc_at(PageRange::try_from(start..end)?)?))
}

/// Frees the area that starts at `start`. `*end`, which may be `NULL`, becomes the page behind it.
///
/// # Safety
/// No other thread uses the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_release(
    map: *mut vmalloc_map,
    start: u64,
    end: *mut u64,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map, detail; map = owned(map) => {
        let area = map.free(start)?;
        if !end.is_null() {
            // SAFETY: the conditions of every call.
            unsafe { end.write(area.end()) };
        }
        Ok(())
    })
}

/// Tells the segment that holds `page`: free, or an area. It answers `-EFAULT` outside of the map.
///
/// # Safety
/// No other thread changes the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_find(
    map: *const vmalloc_map,
    page: u64,
    segment: *mut vmalloc_segment,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code_of_map > segment, detail; map => map.map.segment(page).ok_or(NoArea::Nothing { page })?)
}

/// Calls `callback` for each segment from the one that holds `from` on. Returns 0 after the last,
/// or the answer that ended the walk. The callback does not change the map.
///
/// # Safety
/// No other thread changes the map meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_map_walk(
    map: *const vmalloc_map,
    from: u64,
    callback: vmalloc_segment_callback,
    context: *mut c_void,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(number, detail; map => {
        // SAFETY: the caller gave the function and its context.
        let visit = unsafe { answer::asking(callback, context) }?;
        Ok(map.map.segments_from(from).find_map(visit).unwrap_or(0))
    })
}
