//! The signal handler.

use super::{Overflow, find, sp};
use arrayvec::ArrayString;
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The signals of an access that the system refuses.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The handlers that were there before, in the order of [`SIGNALS`].
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// The function that is called for each overflow.
static REPORT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Has `report` called for each overflow. The first call installs the handler.
pub(super) fn install(report: fn(&Overflow)) -> io::Result<()> {
    // Release: pairs with the Acquire in `handle`.
    REPORT.store(report as *mut (), Ordering::Release);
    let mut before = [action_of(SIGNALS[0])?, action_of(SIGNALS[1])?];
    let mut is_first = false;
    BEFORE.get_or_init(|| {
        is_first = true;
        before
    });
    if !is_first {
        return Ok(());
    }
    for (signal, before) in SIGNALS.iter().zip(&mut before) {
        let mut ours = *before;
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | kept_flags(before);
        // SAFETY: the handler is a function of the kind that SA_SIGINFO asks for, for the life of
        // the program. `before` has room for the action.
        answer(unsafe { libc::sigaction(*signal, &ours, before) })?;
    }
    Ok(())
}

/// Returns the flags of an action that its replacement has, too: so a handler that was to be called
/// once is, and calls of the kernel go on or not as before.
fn kept_flags(before: &libc::sigaction) -> c_int {
    match before.sa_sigaction {
        // Its flags mean nothing.
        libc::SIG_DFL => 0,
        // An ignored signal interrupts no call.
        libc::SIG_IGN => libc::SA_RESTART,
        _ => before.sa_flags & (libc::SA_NODEFER | libc::SA_RESETHAND | libc::SA_RESTART),
    }
}

fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: there is room for the action, which is filled where the call succeeds.
    unsafe {
        answer(libc::sigaction(signal, ptr::null(), action.as_mut_ptr()))?;
        Ok(action.assume_init())
    }
}

fn answer(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes one line to standard error.
pub(super) fn write_line(overflow: &Overflow) {
    let mut line = ArrayString::<256>::new();
    // Longer lines are cut.
    let _ = writeln!(line, "{overflow}");
    // SAFETY: the bytes are the line's. Where they can't be written, nothing can be done.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel calls this with both, as SA_SIGINFO asks for.
    let (addr, code, sp) = unsafe { ((*info).si_addr() as usize, (*info).si_code, sp::of(context)) };
    // Signals that a program sends have codes up to 0, and no address.
    let overflow = if code > 0 { find(addr, sp) } else { None };
    if let Some(overflow) = overflow {
        tell(&overflow);
    }
    go_on(signal, info, context);
}

/// Calls the function that reports overflows, if there is one. It may change no errno.
fn tell(overflow: &Overflow) {
    // Acquire: pairs with the Release in `install`.
    let report = REPORT.load(Ordering::Acquire);
    if report.is_null() {
        return;
    }
    // SAFETY: `install` stored a function of this type.
    let report = unsafe { mem::transmute::<*mut (), fn(&Overflow)>(report) };
    let errno = io::Error::last_os_error().raw_os_error();
    report(overflow);
    set_errno(errno);
}

fn set_errno(errno: Option<c_int>) {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() = errno.unwrap_or(0) };
}

/// Calls the handler that was there before, or has the default action follow.
fn go_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = SIGNALS.iter().position(|&known| known == signal).unwrap_or(0);
    let before = BEFORE.get().map(|all| all[index]);
    match before {
        Some(action) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) => {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                type Full = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: the program installed it as a handler of this kind.
                let handler = unsafe { mem::transmute::<usize, Full>(action.sa_sigaction) };
                handler(signal, info, context);
            } else {
                // SAFETY: as above.
                let handler = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(action.sa_sigaction) };
                handler(signal);
            }
        }
        // A program may send what this one ignores. An access that is refused can't be ignored.
        // SAFETY: the facts are the kernel's.
        Some(action) if action.sa_sigaction == libc::SIG_IGN && unsafe { (*info).si_code } <= 0 => {}
        // The access is repeated on return, and ends the program. A signal that was sent is sent
        // again.
        _ => {
            // SAFETY: the default action needs no function; an action of zeros is that.
            unsafe {
                let default: libc::sigaction = mem::zeroed();
                libc::sigaction(signal, &default, ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
    }
}
