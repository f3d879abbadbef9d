//! Reports of stack overflows, by the name of the stack.
//!
//! # The handler
//! It runs on the alternate stack of its thread, for the stack that overflowed has no room. It
//! takes no lock, allocates nothing, and leaves `errno` as it was:
//! - pools are found in a list that handlers may look into (WATCH-2);
//! - areas and names are found by [`Space::try_find`](vmalloc::Space::try_find), which never waits;
//! - the text is put together in an array, and written by one write(2).
//!
//! Then it goes on to the handler that was there before. It never returns to the code that
//! overflowed as if nothing had happened: where no handler was there before, the default action
//! ends the program when the access is repeated.

mod alt_stack;
mod sp;

pub use alt_stack::{AltStack, AltStackError};

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use vmalloc::{AreaInfo, Kind, Tag};
use vmalloc_linux::SharedSpace;
use vmalloc_linux::trap_report::{InstallError, report_stacks_to};
use vmalloc_linux::watched::{Watch, Watched};

/// The pools of the program.
static POOLS: Watched<Shown> = Watched::new();

/// The function that is called for each overflow.
static REPORT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// A pool, as far as the handler looks into it.
pub(crate) struct Shown {
    space: SharedSpace,
    name: Tag,
}

/// Shows a pool to the handler, until the result is dropped.
pub(crate) fn show(space: &SharedSpace, name: Tag) -> Watch<Shown> {
    POOLS.show(Box::new(Shown { space: Arc::clone(space), name }))
}

/// An overflow, as the handler found it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Overflow {
    /// The address that could not be accessed.
    pub addr: usize,
    /// The lowest address of the stack that has memory behind it, as far as it is known: a
    /// [`Growable`](crate::Growable) reports the bottom of its reservation.
    pub bottom: usize,
    /// The address behind the highest byte of the stack.
    pub top: usize,
    /// The name of the stack, if it has one.
    pub name: Option<Tag>,
    /// The name of the pool.
    pub pool: Tag,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addr, bottom, top, name, pool } = self;
        write!(f, "stack overflow at {addr:#x}: ")?;
        match name {
            Some(name) => write!(f, "stack `{name}` of pool `{pool}`")?,
            None => write!(f, "a stack of pool `{pool}`")?,
        }
        write!(f, ", {bottom:#x}..{top:#x}, {} KiB", (top - bottom) >> 10)
    }
}

/// Writes a line to standard error for each overflow of a stack of any pool, before the program
/// ends of it. Handlers of `SIGSEGV` and `SIGBUS` that were there before are called afterwards.
///
/// A thread needs an alternate stack, on which handlers run. Threads of Rust's standard library
/// have one. For others there is [`AltStack`].
///
/// ```
/// vmalloc_stacks::report_overflows()?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When the system refuses the handler.
pub fn report_overflows() -> io::Result<()> {
    install(|overflow| vmalloc_linux::say(overflow))
}

/// Calls `report` for each overflow of a stack of any pool, as [`report_overflows`] writes a line.
///
/// # Safety
/// `report` runs in a signal handler, on the alternate stack of its thread: it calls only what is
/// async-signal-safe, see signal-safety(7), makes and drops no stack, and does not unwind.
///
/// # Errors
/// When the system refuses the handler.
pub unsafe fn report_overflows_to(report: fn(&Overflow)) -> io::Result<()> {
    install(report)
}

/// Has `report` called for each overflow. The first call installs the handler.
fn install(report: fn(&Overflow)) -> io::Result<()> {
    // Release: pairs with the Acquire in `tell`.
    REPORT.store(report as *mut (), Ordering::Release);
    // SAFETY: it calls what a handler may, and `report`, which leaves `errno` to the handler.
    unsafe { report_stacks_to(tell) }.map_err(|error| match error {
        InstallError::Refused { code } => io::Error::from_raw_os_error(code),
        _ => io::ErrorKind::Other.into(),
    })
}

/// Calls the function that reports overflows if an access of `addr` was one.
fn tell(addr: usize, context: *mut c_void) {
    // SAFETY: the context is what a handler gets.
    let sp = unsafe { sp::of(context) };
    // Acquire: pairs with the Release in `install`.
    let report = REPORT.load(Ordering::Acquire);
    if let Some(overflow) = POOLS.find_map(|pool| pool.overflow(addr, sp)) {
        // SAFETY: `install` stored a function of this type, before it had this one called.
        let report = unsafe { mem::transmute::<*mut (), fn(&Overflow)>(report) };
        report(&overflow);
    }
}

impl Shown {
    /// Returns the stack whose overflow an access of `addr` was.
    fn overflow(&self, addr: usize, sp: Option<usize>) -> Option<Overflow> {
        if !self.space.contains(addr) {
            return None;
        }
        let page_bytes = self.space.geometry().page_bytes();
        let page = addr & !(page_bytes - 1);
        let stack_at = |bottom| self.space.try_find(bottom).ok()?.filter(|area| area.addr == bottom);
        let area = self.growable_at(page).or_else(|| stack_at(page + page_bytes))?;
        let top = area.addr + area.pages as usize * page_bytes;
        // An access below the bottom by code that runs elsewhere is no overflow: the top of the
        // stack below may have been overrun.
        let is_running = |sp| page < sp && sp <= top;
        let overflow = Overflow { addr, bottom: area.addr, top, name: area.tag, pool: self.name };
        sp.is_none_or(is_running).then_some(overflow)
    }

    /// Returns the growable stack that `page` belongs to, without memory.
    fn growable_at(&self, page: usize) -> Option<AreaInfo> {
        let area = self.space.try_find(page).ok()??;
        // The first page of the span has no guard, and is no stack.
        let is_inside = page < area.addr + area.pages as usize * self.space.geometry().page_bytes();
        (area.kind == Kind::Reserved && area.guard && is_inside).then_some(area)
    }
}
