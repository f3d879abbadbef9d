//! A test's own process: its limits, its descriptors and the signals to its threads, alike for all
//! C libraries.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Pid, gettid};

/// Sets a limit for good. `None` is no limit.
pub fn set_limit(resource: Resource, most: impl Into<Option<u64>>) {
    let most = most.into();
    setrlimit(resource, Rlimit { current: most, maximum: most }).unwrap();
}

/// Sets a limit that can be raised again, and returns what it was.
pub fn set_soft_limit(resource: Resource, most: impl Into<Option<u64>>) -> Option<u64> {
    let old = getrlimit(resource);
    setrlimit(resource, Rlimit { current: most.into(), ..old }).unwrap();
    old.current
}

/// Runs `act` under a soft limit.
pub fn limited<R>(resource: Resource, most: usize, act: impl FnOnce() -> R) -> R {
    let old = set_soft_limit(resource, most as u64);
    let result = act();
    set_soft_limit(resource, old);
    result
}

/// Closes all descriptors from `first` on.
///
/// # Safety
/// Nothing in this process needs one of them any more.
pub unsafe fn close_from(first: libc::c_uint) {
    // By its number: musl has no function for it.
    // SAFETY: the caller's promise is passed on.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) }, 0);
}

/// Sets a handler, which does nothing that a handler may not.
pub fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: all-zero is a valid action, and the handler is what it should be.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler as usize, flags);
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// A thread of this process, to be interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Thread(Pid);

impl Thread {
    /// Returns the calling thread.
    pub fn current() -> Self {
        Self(gettid())
    }

    /// Sends `SIGUSR1` to the thread. Nothing happens if it has ended.
    pub fn interrupt(self) {
        // By its number: a C library's own name of a thread may be a pointer.
        // SAFETY: no conditions.
        unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0.as_raw_nonzero().get(), libc::SIGUSR1)
        };
    }
}

/// Runs a test in a thread that keeps its CPU, which may change else between two allocations.
pub fn on_one_cpu(test: impl FnOnce() + Send) {
    let body = || {
        // SAFETY: a set of CPUs on this stack, of the size that the kernel is told.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap(), &mut one);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
        }
        test();
    };
    std::thread::scope(|scope| scope.spawn(body).join().unwrap());
}
