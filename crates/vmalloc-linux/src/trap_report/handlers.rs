//! The handlers of `SIGSEGV` and `SIGBUS`.

use super::place;
use crate::os::fatal::say;
use libc::{c_int, c_void, sigaction, siginfo_t};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// The signals of a trap.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The actions that the program had for them before.
static BEFORE: [OnceLock<sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// A function that is told of traps, in the handler: of the address, and of what a handler gets.
/// It may change no `errno`, and calls nothing that a handler may not.
pub type Reporter = fn(addr: usize, context: *mut c_void);

/// The functions that are told of traps: that of areas, and that of stacks.
static REPORTERS: [OnceLock<Reporter>; 2] = [const { OnceLock::new() }; 2];

/// An error of [`install`]. Nothing was changed, or the handler of one signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The kernel refused a handler.
    #[error("sigaction failed (errno {code})")]
    Refused {
        /// The `errno` of sigaction(2).
        code: i32,
    },
}

/// Returns true if reports are wanted.
#[inline]
pub(super) fn is_installed() -> bool {
    // Relaxed: a free that does not see it yet leaves no record.
    IS_INSTALLED.load(Ordering::Relaxed)
}

/// Has traps in watched spaces, and in areas that they freed, reported on the standard error. It
/// handles `SIGSEGV` and `SIGBUS`, on the alternate stack of the thread if it has one (as threads
/// of Rust do), and then calls the handlers that were there before. From then on each free that
/// traps at once is remembered, which takes it 40 ns. A second call changes nothing.
///
/// # Errors
/// [`InstallError`] when the kernel refuses a handler.
pub fn install() -> Result<(), InstallError> {
    install_reporter(0, report)?;
    IS_INSTALLED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Has `reporter` told of traps, for stacks.
///
/// # Safety
/// It is what [`Reporter`] says.
///
/// # Errors
/// As of [`install`].
#[doc(hidden)]
pub unsafe fn report_stacks_to(reporter: Reporter) -> Result<(), InstallError> {
    install_reporter(1, reporter)
}

fn install_reporter(nth: usize, reporter: Reporter) -> Result<(), InstallError> {
    let _ = REPORTERS[nth].set(reporter);
    for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
        if before.get().is_none() {
            install_one(signal, before)
                .map_err(|errno| InstallError::Refused { code: errno.raw_os_error() })?;
        }
    }
    Ok(())
}

fn install_one(signal: c_int, before: &OnceLock<sigaction>) -> Result<(), Errno> {
    // SAFETY: a query, of a signal that there is.
    let old = unsafe { exchange(signal, None)? };
    // Known before the handler can run. Where two threads install it, the first has looked before
    // either handler was there.
    let _ = before.set(old);
    // SAFETY: all-zero is a valid value: no flags, an empty mask.
    let mut new: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    new.sa_sigaction = on_trap as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | kept_flags(&old);
    new.sa_mask = old.sa_mask;
    // SAFETY: `on_trap` is a handler with three arguments, and calls nothing that a handler may
    // not.
    unsafe { exchange(signal, Some(&new)) }.map(drop)
}

/// Returns the flags of an action that its replacement has, too: so a handler that was to be called
/// once is, and calls of the kernel go on or not as before.
fn kept_flags(old: &sigaction) -> c_int {
    match old.sa_sigaction {
        // Its flags mean nothing.
        libc::SIG_DFL => 0,
        // An ignored signal interrupts no call.
        libc::SIG_IGN => libc::SA_RESTART,
        _ => old.sa_flags & (libc::SA_NODEFER | libc::SA_RESETHAND | libc::SA_RESTART),
    }
}

/// # Safety
/// A new handler has the arguments that its flags say, and calls nothing that a handler may not.
unsafe fn exchange(signal: c_int, new: Option<&sigaction>) -> Result<sigaction, Errno> {
    let mut old = MaybeUninit::zeroed();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: null or a valid action, and room for one. The handler is the caller's to answer for.
    match unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) } {
        // SAFETY: the call has filled it, and all-zero is valid, too.
        0 => Ok(unsafe { old.assume_init() }),
        _ => {
            Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)))
        }
    }
}

/// Reports a trap, and does what was done about the signal before.
extern "C" fn on_trap(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the location of this thread's `errno` is always valid.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives a handler with three arguments the facts of its signal.
    let (code, addr) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Signals that a process sends have no address.
    if code > 0 {
        REPORTERS.iter().filter_map(OnceLock::get).for_each(|report| report(addr, context));
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    let before = SIGNALS.iter().position(|known| *known == signal).and_then(|nth| BEFORE[nth].get());
    match before {
        Some(before) if before.sa_sigaction > libc::SIG_IGN => {
            // SAFETY: the handler that the program had for this signal, with its arguments.
            unsafe { call(before, signal, info, context) }
        }
        // A process may send what the program ignores. A trap can't be ignored.
        Some(before) if before.sa_sigaction == libc::SIG_IGN && code <= 0 => {}
        _ => end(signal, code),
    }
}

fn report(addr: usize, _: *mut c_void) {
    if let Some(trap) = place::look_up(addr) {
        say(&format_args!("vmalloc: {trap}"));
    }
}

/// Calls a handler.
///
/// # Safety
/// The action is the one that the program had for `signal`, and has a function.
unsafe fn call(action: &sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = action.sa_sigaction;
    // SAFETY: the flag says which arguments the function takes, and the caller that it is one.
    unsafe {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

/// Has the signal end the program, as it does by default: at the access, which is made again, or at
/// once where another process has sent it.
fn end(signal: c_int, code: c_int) {
    // SAFETY: all-zero is the default action.
    let default: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: no handler.
    let _ = unsafe { exchange(signal, Some(&default)) };
    if code <= 0 {
        // SAFETY: no conditions. It comes when this handler has returned.
        unsafe { libc::raise(signal) };
    }
}
