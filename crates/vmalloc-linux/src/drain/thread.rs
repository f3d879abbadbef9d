//! The drain thread as the C library knows it.

use super::sync::DRAINS;
use rustix::io::Errno;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// The thread's name, for tools that list the threads of a program.
const NAME: &std::ffi::CStr = c"vmalloc-drain";

/// The thread's stack: a purge needs a few KiB of it, and the program's heap and
/// the thread-local variables of all its libraries need some room as well. Only what is touched
/// costs memory.
const STACK_BYTES: usize = 256 << 10;

/// The C library's name of a thread: a number, or a pointer (musl). The thread can be joined.
pub(crate) struct Thread(libc::pthread_t);

// SAFETY: the name is only given to the C library, whose calls take it from any thread.
unsafe impl Send for Thread {}

impl Thread {
    /// Waits for the end of the thread, which is another one than this.
    pub(crate) fn join(self) {
        // SAFETY: the thread can be joined, and this consumes its name. The answer can only be
        // success.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }

    /// Has nothing left behind when the thread ends.
    pub(crate) fn detach(self) {
        // SAFETY: as in `join`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// Creates the drain thread, for which the bell will have the value `ours`.
///
/// By the C library, not by `std::thread`: that takes the thread's name, result and closure from
/// the program's heap, which may stand on a space. The C library maps the stack, and takes a few
/// hundred bytes for its table of thread-local blocks from its own heap.
pub(crate) fn spawn(ours: u32) -> Result<Thread, Errno> {
    // No handler of the program's may run on the thread: it would find neither the stack nor the
    // thread it expects.
    with_signals_blocked(|| create(ours))
}

fn create(ours: u32) -> Result<Thread, Errno> {
    let mut attributes = MaybeUninit::uninit();
    let mut thread = MaybeUninit::uninit();
    // SAFETY: both have room for the values that are written. The attributes are initialized before
    // they are used, and destroyed once. The new thread runs `main` with the argument that it
    // expects.
    unsafe {
        answer(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        let created =
            answer(libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES)).and_then(|()| {
                let argument = ptr::without_provenance_mut(ours as usize);
                answer(libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), main, argument))
            });
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        // SAFETY: written, if the thread was created.
        created.map(|()| Thread(thread.assume_init()))
    }
}

fn answer(code: libc::c_int) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(code)) }
}

extern "C" fn main(ours: *mut c_void) -> *mut c_void {
    // A failure costs only the name.
    let _ = rustix::thread::set_name(NAME);
    DRAINS.run(ours.addr() as u32);
    ptr::null_mut()
}

/// Runs `body` with all signals but SIGSYS blocked. A thread that it creates inherits that mask.
/// (The C library keeps two others for itself.)
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: room for a set each; the first is filled before it is read. The call can't fail with
    // these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        // A filter (seccomp(2)) raises it. The kernel ends a process that blocks it then.
        libc::sigdelset(all.as_mut_ptr(), libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = body();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}
