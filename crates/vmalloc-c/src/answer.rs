//! Answers of calls: a pointer or 0, or else `errno` and the detail.

use crate::error::{Facts, vmalloc_error};
use crate::tsan;
use libc::{c_int, c_void};
use std::io;
use thiserror::Error;
use vmalloc_linux::area_map::{ResizeError, Violation};
use vmalloc_linux::fork::RegisterError;
use vmalloc_linux::{
    AllocError, AreaError, FreeError, PageRange, PlatformError, PurgeError, RequestError, vmalloc,
};
use vmalloc_percpu::{CongruentError, CongruentFreeError};

/// An argument that is wrong whatever the state.
#[derive(Clone, Copy, Debug, Error)]
pub(crate) enum Argument {
    #[error("a pointer is NULL")]
    Null,
    /// The size that a struct says it has.
    #[error("a struct of {0} bytes is of no version")]
    StructSize(usize),
    /// The index of the first byte that is set and not known.
    #[error("byte {0} of a struct is set, and this version does not know it")]
    UnknownByte(usize),
    #[error("flags {0:#x} are unknown, or exclude each other")]
    Flags(u32),
    #[error("a name is missing, or is not UTF-8")]
    Name,
    #[error("{0} is no value that this version knows")]
    Value(u32),
    /// A number of elements.
    #[error("a count of {0} is not allowed here")]
    Count(usize),
}

/// Why a call failed: an error of Rust, or an argument.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Argument(#[from] Argument),
    #[error(transparent)]
    Alloc(#[from] AllocError),
    #[error(transparent)]
    Area(#[from] AreaError),
    #[error(transparent)]
    Free(#[from] FreeError),
    #[error(transparent)]
    NoArea(#[from] vmalloc::NoArea),
    #[error(transparent)]
    Congruent(#[from] CongruentError),
    #[error(transparent)]
    CongruentFree(#[from] CongruentFreeError),
    #[error(transparent)]
    Platform(#[from] PlatformError),
    #[error(transparent)]
    Purge(#[from] PurgeError),
    #[error(transparent)]
    Unmap(#[from] vmalloc_short::UnmapError),
    #[error(transparent)]
    Resize(#[from] ResizeError),
    #[error(transparent)]
    Open(#[from] vmalloc_linux::Error),
    #[error(transparent)]
    Subspace(#[from] vmalloc_subspaces::SubspaceError),
    #[error(transparent)]
    Slots(#[from] vmalloc_slots::SlotsError),
    #[error(transparent)]
    Slot(#[from] vmalloc_slots::SlotError),
    #[error(transparent)]
    Stack(#[from] vmalloc_stacks::StackError),
    #[error(transparent)]
    AltStack(#[from] vmalloc_stacks::AltStackError),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("out of memory for metadata")]
    Metadata,
    #[error("it can't be told without waiting for a lock that is held")]
    Contended,
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The system call of this name, and its `errno`.
    #[error("the system refused {0}: errno {1}")]
    System(&'static str, i32),
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

/// Errors that are refused as others are.
macro_rules! refused_as {
    ($($error:ty => $kind:ident),*) => {
        $(impl From<$error> for Refusal {
            fn from(error: $error) -> Self {
                Self::$kind(error.into())
            }
        })*
    };
}

refused_as!(vmalloc::FitError => Alloc, RequestError => Alloc, RegisterError => Open);

/// Makes a call, and returns its answer by the function of this module that is named first. Each
/// name behind `;` is a handle, or becomes what a function makes of the caller's arguments. The
/// block has them, and returns a `Result`, or with a struct of the caller's behind `>` what it is
/// filled with.
macro_rules! call {
    (@ $name:tt) => {
        $crate::answer::given($name)
    };
    (@ $name:tt, $read:expr) => {
        $read
    };
    ($answer:ident > $to:ident, $detail:ident; $($name:tt $(= $read:expr)?),+ => $body:expr) => {
        call!($answer, $detail; $($name $(= $read)?),+ => {
            let told = $body;
            // SAFETY: the conditions of every call.
            unsafe { $crate::input::fill($to, &told.into()) }
        })
    };
    ($answer:ident, $detail:ident => $body:expr) => {{
        let call = || -> Result<_, $crate::answer::Refusal> { $body };
        let result = {
            let _own = $crate::tsan::Own::new();
            call()
        };
        // SAFETY: the conditions of every call.
        unsafe { $crate::answer::$answer(result, $detail) }
    }};
    ($answer:ident, $detail:ident; $($name:tt $(= $read:expr)?),+ => $body:expr) => {
        call!($answer, $detail => {
            $(
                // SAFETY: the conditions of every call, and those that the call names.
                let $name = unsafe { call!(@ $name $(, $read)?) }?;
            )+
            $body
        })
    };
}

pub(crate) use vmalloc_linux::page_bytes;

/// Writes the refusal to `detail`, and returns its `errno`.
///
/// # Safety
/// `detail` is null, or may be written.
#[cold]
#[inline(never)]
pub(crate) unsafe fn refuse(refusal: &Refusal, detail: *mut vmalloc_error) -> c_int {
    let mut error = Facts::of(refusal).finish();
    if !detail.is_null() {
        error.say(refusal);
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

/// Returns the answer of a call that returns a number, or the answer of a callback.
///
/// # Safety
/// That of [`refuse`].
pub(crate) unsafe fn number(result: Result<c_int, Refusal>, detail: *mut vmalloc_error) -> c_int {
    // SAFETY: the caller's condition.
    result.unwrap_or_else(|refusal| unsafe { refuse_code(refusal, detail) })
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

/// Returns the addresses of a range of pages: the first, and that behind the last.
pub(crate) fn bounds(range: PageRange) -> (usize, usize) {
    let bytes = page_bytes();
    (range.start() as usize * bytes, range.end() as usize * bytes)
}

/// Returns a visit that calls a function of the caller's for an item, as the struct of C that is
/// made of it, and ends a walk with an answer that is not 0.
///
/// # Safety
/// The function may be called with the context.
pub(crate) unsafe fn asking<T: Into<C>, C>(
    callback: Option<unsafe extern "C-unwind" fn(*mut c_void, *const C) -> c_int>,
    context: *mut c_void,
) -> Result<impl FnMut(T) -> Option<c_int>, Refusal> {
    let callback = callback.ok_or(Argument::Null)?;
    Ok(move |item: T| {
        let given = item.into();
        // SAFETY: the caller's condition.
        let answer = tsan::watched(|| unsafe { callback(context, &given) });
        (answer != 0).then_some(answer)
    })
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

/// Returns what a pointer leads to, to be changed.
///
/// # Safety
/// It is null, or leads to a value that nothing else uses during the call.
pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Refusal> {
    // SAFETY: the caller's condition.
    unsafe { pointer.as_mut() }.ok_or(Refusal::Argument(Argument::Null))
}

/// Ends a handle. Null is none.
///
/// # Safety
/// It is null, or came from [`handle`], and is used no more.
pub(crate) unsafe fn end<T>(pointer: *mut T) {
    tsan::before();
    let _own = tsan::Own::new();
    if !pointer.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(pointer) });
    }
}
