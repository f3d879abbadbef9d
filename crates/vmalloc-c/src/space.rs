//! Spaces: a whole reservation, or a part of a root.

use crate::answer::{self, Refusal, given};
use crate::error::vmalloc_error;
use crate::input;
use crate::options::vmalloc_options;
use crate::stats::tell_if_asked;
use crate::tsan;
use libc::{c_int, c_void};
use once_cell::race::OnceBox;
use std::sync::Arc;
use vmalloc_linux::{Linux, SharedSpace, Space};
use vmalloc_short::ShortMaps;
use vmalloc_subspaces::Subspace;

/// A space over a whole reservation.
pub(crate) type Whole = SharedSpace;
/// A space over a part of a root.
pub(crate) type Part = Arc<Space<Subspace<Linux>>>;

/// A space: memory and addresses are allocated from it. Any thread may use it.
pub struct vmalloc_space(pub(crate) Of<Whole, Part>, pub(crate) OnceBox<Short>);

/// The short mappings of a space.
pub(crate) type Short = Of<ShortMaps<Whole>, ShortMaps<Part>>;

/// Something of a whole reservation, or of a part of one.
#[derive(Debug)]
pub(crate) enum Of<W, P> {
    Whole(W),
    /// A whole one in a program with the thread sanitizer: see [`tsan`].
    Ordered(W),
    Part(P),
}

/// Does something with the space of either kind, or with something on it.
macro_rules! on {
    ($of:expr, $it:ident => $body:expr) => {
        match $of {
            $crate::space::Of::Whole($it) | $crate::space::Of::Ordered($it) => $body,
            $crate::space::Of::Part($it) => $body,
        }
    };
}

/// Makes something of the space of either kind, of that kind.
macro_rules! make_on {
    ($of:expr, $it:ident => $body:expr) => {
        match $of {
            $crate::space::Of::Whole($it) | $crate::space::Of::Ordered($it) => {
                $crate::space::Of::Whole($body)
            }
            $crate::space::Of::Part($it) => $crate::space::Of::Part($body),
        }
    };
}

pub(crate) use {make_on, on};

impl vmalloc_space {
    /// Returns the handle of a space. Short mappings with blocks of another size than the usual are
    /// made with it.
    pub(crate) fn new(space: Of<Whole, Part>, block_slots: u64) -> Result<Self, Refusal> {
        let short = OnceBox::new();
        if block_slots != 0 {
            let made = make_on!(&space, it => ShortMaps::with_block_slots(Arc::clone(it), block_slots)?);
            let is_first = short.set(Box::new(made)).is_ok();
            debug_assert!(is_first);
        }
        Ok(Self(space, short))
    }

    /// Returns the short mappings of the space, which are made when they are first needed: they
    /// take 12 KiB.
    pub(crate) fn short(&self) -> Result<&Short, Refusal> {
        let make = || Ok(Box::new(make_on!(&self.0, it => ShortMaps::of(Arc::clone(it))?)));
        self.1.get_or_try_init(make)
    }
}

/// Reserves addresses and opens a space on them. `options` may be `NULL`: all defaults. Memory is
/// taken from the system as areas need it. A thread of the space's own drains in the background,
/// unless the options forbid it. The space may be used before and after `fork`, by parent and
/// child.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_open(
    options: *const vmalloc_options,
    detail: *mut vmalloc_error,
) -> *mut vmalloc_space {
    call!(handle, detail; given = input::read_or_default(options) => {
        // SAFETY: the conditions of every call.
        let (linux, space) = unsafe { given.split() }?;
        let space = vmalloc_linux::open(linux, space)?;
        let is_ordered = tsan::is_there();
        let space = if is_ordered { Of::Ordered(space) } else { Of::Whole(space) };
        vmalloc_space::new(space, given.block_slots)
    })
}

/// Closes a space. All memory and addresses of it end, handed out or not, once the frames,
/// mappings, slots and watches of it have ended too. `NULL` is allowed.
///
/// # Safety
/// The program uses the handle no more, nor any memory that it allocated there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_close(space: *mut vmalloc_space) {
    // SAFETY: the caller's condition.
    unsafe { answer::end(space) };
}

/// Tells the addresses of a space: all its areas lie in `[*start, *end)`. Either may be `NULL`.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_span(
    space: *const vmalloc_space,
    start: *mut usize,
    end: *mut usize,
    detail: *mut vmalloc_error,
) -> c_int {
    call!(code, detail; space => {
        let (first, last) = answer::bounds(on!(&space.0, it => it.geometry().span));
        // SAFETY: the conditions of every call.
        unsafe { (tell_if_asked(start, first), tell_if_asked(end, last)) };
        Ok(())
    })
}

/// Returns the size of a page in bytes, the unit of all areas.
#[unsafe(no_mangle)]
pub extern "C" fn vmalloc_page_size() -> usize {
    answer::page_bytes()
}

/// Returns 1 if an address lies in the space, whatever is there, and 0 if not. A `NULL` space has
/// none.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_contains(space: *const vmalloc_space, addr: *const c_void) -> c_int {
    // SAFETY: the conditions of every call.
    let found = unsafe { given(space) }.map(|space| on!(&space.0, it => it.contains(addr.addr())));
    found.is_ok_and(|is_inside| is_inside).into()
}

/// Checks every invariant of a space, which takes as long as it has areas. It answers
/// `VMALLOC_E_DAMAGED` if one does not hold.
///
/// # Safety
/// The conditions of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmalloc_verify(space: *const vmalloc_space, detail: *mut vmalloc_error) -> c_int {
    call!(code, detail; space => on!(&space.0, it => Ok(it.verify()?)))
}
