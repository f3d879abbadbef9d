//! Answers of calls: a pointer or 0, or else `errno` and the detail.

#[cfg(test)]
use crate::code::*;
use crate::error::{Facts, vmalloc_error};
use crate::tsan;
use libc::{c_int, c_void};
use std::io;
use vmalloc_linux::area_map::{ResizeError, Violation};
use vmalloc_linux::fork::RegisterError;
use vmalloc_linux::{AllocError, AreaError, FreeError, PlatformError, RequestError, vmalloc};
use vmalloc_percpu::{CongruentError, CongruentFreeError};

/// An argument that is wrong whatever the state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// A pointer that must lead somewhere.
    Null,
    /// The size that a struct says it has.
    StructSize(usize),
    /// The index of the first byte that is set and not known.
    UnknownByte(usize),
    Flags(u32),
    Name,
    Value(u32),
    /// A number of elements.
    Count(usize),
}

/// Why a call failed: an error of Rust, or an argument.
#[derive(Debug)]
pub(crate) enum Refusal {
    Argument(Argument),
    Alloc(AllocError),
    Area(AreaError),
    Free(FreeError),
    NoArea(vmalloc::NoArea),
    Congruent(CongruentError),
    CongruentFree(CongruentFreeError),
    Platform(PlatformError),
    Resize(ResizeError),
    Open(vmalloc_linux::OpenError),
    Subspace(vmalloc_subspaces::SubspaceError),
    Slots(vmalloc_slots::SlotsError),
    Slot(vmalloc_slots::SlotError),
    Stack(vmalloc_stacks::StackError),
    AltStack(vmalloc_stacks::AltStackError),
    Violation(Violation),
    Metadata,
    Contended,
    Io(io::Error),
    /// The system call of this name, and its `errno`.
    System(&'static str, i32),
}

macro_rules! from {
    ($($source:ty => $variant:ident,)*) => {
        $(impl From<$source> for Refusal {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    Argument => Argument,
    AllocError => Alloc,
    AreaError => Area,
    FreeError => Free,
    vmalloc::NoArea => NoArea,
    CongruentError => Congruent,
    CongruentFreeError => CongruentFree,
    PlatformError => Platform,
    ResizeError => Resize,
    vmalloc_linux::OpenError => Open,
    vmalloc_subspaces::SubspaceError => Subspace,
    vmalloc_slots::SlotsError => Slots,
    vmalloc_slots::SlotError => Slot,
    vmalloc_stacks::StackError => Stack,
    vmalloc_stacks::AltStackError => AltStack,
    Violation => Violation,
    io::Error => Io,
}

impl From<vmalloc_short::ShortError> for Refusal {
    fn from(error: vmalloc_short::ShortError) -> Self {
        match error {
            vmalloc_short::ShortError::BadBlock { slots } => Argument::Count(slots as usize).into(),
            _ => Self::Metadata,
        }
    }
}

impl From<vmalloc::Contended> for Refusal {
    fn from(_: vmalloc::Contended) -> Self {
        Self::Contended
    }
}

impl From<vmalloc::FitError> for Refusal {
    fn from(error: vmalloc::FitError) -> Self {
        Self::Alloc(error.into())
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        Self::Alloc(error.into())
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Self {
        Self::Open(error.into())
    }
}

pub(crate) use vmalloc_linux::page_bytes;

/// Writes the refusal to `detail`, and returns its `errno`.
///
/// # Safety
/// `detail` is null, or may be written.
#[cold]
#[inline(never)]
pub(crate) unsafe fn refuse(refusal: &Refusal, detail: *mut vmalloc_error) -> c_int {
    let error = Facts::of(refusal).finish();
    if !detail.is_null() {
        // SAFETY: the caller's condition.
        unsafe { detail.write(error) };
    }
    error.error_number
}

/// Returns null, with `errno` and the detail set.
///
/// # Safety
/// That of [`refuse`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn refuse_pointer<T>(refusal: Refusal, detail: *mut vmalloc_error) -> *mut T {
    // SAFETY: the caller's condition.
    let errno = unsafe { refuse(&refusal, detail) };
    // SAFETY: the C library has one for each thread.
    unsafe { *libc::__errno_location() = errno };
    std::ptr::null_mut()
}

/// Returns a negative `errno`, with the detail set.
///
/// # Safety
/// That of [`refuse`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn refuse_code(refusal: Refusal, detail: *mut vmalloc_error) -> c_int {
    // SAFETY: the caller's condition.
    -unsafe { refuse(&refusal, detail) }
}

/// Returns the answer of a call that returns a code.
///
/// # Safety
/// That of [`refuse`].
pub(crate) unsafe fn code(result: Result<(), Refusal>, detail: *mut vmalloc_error) -> c_int {
    tsan::after();
    // SAFETY: the caller's condition.
    unsafe { code_of_map(result, detail) }
}

/// Returns the answer of a call on an address map, which orders no threads.
///
/// # Safety
/// That of [`refuse`].
pub(crate) unsafe fn code_of_map(result: Result<(), Refusal>, detail: *mut vmalloc_error) -> c_int {
    match result {
        Ok(()) => 0,
        // SAFETY: the caller's condition.
        Err(refusal) => unsafe { refuse_code(refusal, detail) },
    }
}

/// Returns the answer of a call that returns an address.
///
/// # Safety
/// That of [`refuse`].
#[inline]
pub(crate) unsafe fn address(result: Result<usize, Refusal>, detail: *mut vmalloc_error) -> *mut c_void {
    tsan::after();
    match result {
        Ok(addr) => std::ptr::with_exposed_provenance_mut(addr),
        // SAFETY: the caller's condition.
        Err(refusal) => unsafe { refuse_pointer(refusal, detail) },
    }
}

/// Returns the answer of a call that returns a handle.
///
/// # Safety
/// That of [`refuse`].
pub(crate) unsafe fn handle<T>(result: Result<T, Refusal>, detail: *mut vmalloc_error) -> *mut T {
    tsan::after();
    match result {
        Ok(value) => Box::into_raw(Box::new(value)),
        // SAFETY: the caller's condition.
        Err(refusal) => unsafe { refuse_pointer(refusal, detail) },
    }
}

/// Returns what a pointer leads to.
///
/// # Safety
/// It is null, or leads to a value that is there during the call and not changed but by its own
/// means.
#[inline(always)]
pub(crate) unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Refusal> {
    tsan::before();
    // SAFETY: the caller's condition.
    unsafe { pointer.as_ref() }.ok_or(Refusal::Argument(Argument::Null))
}

/// Ends a handle. Null is none.
///
/// # Safety
/// It is null, or came from [`handle`], and is used no more.
pub(crate) unsafe fn end<T>(pointer: *mut T) {
    tsan::before();
    if !pointer.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Returns whether a code says that the address is at fault.
#[cfg(test)]
fn is_of_area(code: i32) -> bool {
    code / 100 == VMALLOC_FAMILY_AREA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_and_foreign_frees_have_codes_and_numbers_of_their_own() {
        let of = |error: FreeError| Facts::of(&error.into()).finish();
        let double = of(FreeError::AlreadyFreed { addr: 7 * page_bytes() });
        let foreign = of(FreeError::NotAnArea { addr: 7 * page_bytes() });
        assert!(is_of_area(double.code) && is_of_area(foreign.code));
        assert_ne!(double.code, foreign.code);
        assert_eq!((double.error_number, foreign.error_number), (libc::EALREADY, libc::EFAULT));
        assert_eq!(double.address, 7 * page_bytes() as u64);
    }
}
