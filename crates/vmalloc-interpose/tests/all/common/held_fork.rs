//! A fork that is held in its middle, so that calls can be made meanwhile.
//!
//! fork(2) of the C library runs its handlers and takes the list of open files then. A thread that
//! flushes all files has the list as long as it waits for a file that this thread has locked.

use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

const PROBE: usize = 64 << 10;

unsafe extern "C" {
    fn flockfile(file: *mut libc::FILE);
    fn funlockfile(file: *mut libc::FILE);
}

/// An open file, until this is dropped.
struct File(*mut libc::FILE);

impl File {
    fn new() -> Self {
        // SAFETY: no conditions.
        let file = unsafe { libc::tmpfile() };
        assert!(!file.is_null(), "a file");
        Self(file)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: an open file, which no thread uses any more.
        unsafe { libc::fclose(self.0) };
    }
}

/// A file that this thread has locked, until this is dropped.
struct Locked<'a>(&'a File);

impl<'a> Locked<'a> {
    fn new(file: &'a File) -> Self {
        // SAFETY: an open file.
        unsafe { flockfile(file.0) };
        Self(file)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: locked by `new`, in this thread.
        unsafe { funlockfile(self.0.0) };
    }
}

/// A thread of the C library, which ends before this does. One of Rust's would map memory for its
/// handlers of signals, at addresses of the library.
struct Thread(libc::pthread_t);

impl Thread {
    /// # Safety
    /// What `play` uses outlives the thread, and no other thread uses it meanwhile.
    unsafe fn new<'a>(play: impl FnOnce() + 'a) -> Self {
        extern "C" fn run(play: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: the box of below, which is this thread's alone.
            let play = unsafe { Box::from_raw(play.cast::<Box<dyn FnOnce()>>()) };
            play();
            ptr::null_mut()
        }
        let play: Box<Box<dyn FnOnce() + 'a>> = Box::new(Box::new(play));
        let mut thread = 0;
        // SAFETY: room for the answer, and a function of this type.
        let code =
            unsafe { libc::pthread_create(&raw mut thread, ptr::null(), run, Box::into_raw(play).cast()) };
        assert_eq!(code, 0, "a thread");
        Self(thread)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: a thread that no other one waits for.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }
}

/// Makes `calls` while another thread is in the middle of a fork, and `in_child` in its child.
pub(crate) fn during_a_fork<T>(subject: &mut T, calls: impl FnOnce(&mut T), in_child: fn(&mut T)) {
    let (subject, flusher) = (ptr::from_mut(subject), AtomicI32::new(0));
    let file = File::new();
    // Dropped in the order from below: threads end when the file is unlocked.
    let (_flushing, _forking);
    let _locked = Locked::new(&file);
    let flush_all = || {
        // SAFETY: no conditions.
        flusher.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        // SAFETY: null means all files.
        unsafe { libc::fflush(ptr::null_mut()) };
    };
    // SAFETY: the number outlives both threads.
    _flushing = unsafe { Thread::new(flush_all) };
    wait_until(|| is_waiting(flusher.load(Ordering::Relaxed)));
    // SAFETY: the child has a copy of the subject, and no other thread.
    _forking = unsafe { Thread::new(move || fork_and(|| in_child(&mut *subject))) };
    wait_until(is_forking);
    // SAFETY: the caller's, and the other threads do not use it.
    calls(unsafe { &mut *subject });
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Returns true if a thread waits for a lock.
fn is_waiting(thread: i32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall"));
    call.is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_futex)))
}

/// Returns true if new mappings are the kernel's.
fn is_forking() -> bool {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping touches nothing that is there.
    let memory = unsafe { libc::mmap(ptr::null_mut(), PROBE, access, kind, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let (base, bytes) = super::reservation();
    // SAFETY: the mapping just made.
    unsafe { libc::munmap(memory, PROBE) };
    bytes != 0 && memory.addr().wrapping_sub(base) >= bytes
}

/// Forks, and waits for the child, in which `play` has to return.
pub(crate) fn fork_and(play: impl FnOnce()) {
    // SAFETY: the child goes on in this thread alone, and uses nothing of the others.
    match unsafe { libc::fork() } {
        0 => {
            // A child that waits for ever is ended, which is a failure.
            // SAFETY: no conditions.
            unsafe { libc::alarm(600) };
            let went_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(play));
            // SAFETY: no conditions.
            unsafe { libc::_exit(i32::from(went_on.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: room for the answer.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0), "a child of a fork");
        }
    }
}
