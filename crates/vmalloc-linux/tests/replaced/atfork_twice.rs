//! A fork between the two steps of a thread that installs the handlers of forks. Its child installs
//! them once more, and forks.
//!
//! In a process of its own: the first fork counts.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use vmalloc_harness::in_own_process;

type Handler = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn __register_atfork(prepare: Handler, parent: Handler, child: Handler, dso: *mut c_void) -> c_int;
}

/// How far the two threads are.
static STEP: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
/// The fork is inside a handler of another library.
const FORKING: u32 = 1;
/// The C library has our handlers, and the thread that installs them has not noted it.
const ENTERED: u32 = 2;
const FORKED: u32 = 3;

fn wait_for(step: u32) {
    while STEP.load(SeqCst) < step {
        std::thread::yield_now();
    }
}

/// Stands in for that of the C library, and stops behind it.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int {
    // SAFETY: as the caller promises for the handlers.
    let code = unsafe { __register_atfork(prepare, parent, child, std::ptr::null_mut()) };
    if STEP.compare_exchange(FORKING, ENTERED, SeqCst, SeqCst).is_ok() {
        wait_for(FORKED);
    }
    code
}

unsafe extern "C" fn others_prepare() {
    if STEP.compare_exchange(NONE, FORKING, SeqCst, SeqCst).is_ok() {
        wait_for(ENTERED);
    }
}

#[test]
fn handlers_that_a_child_installs_once_more_do_no_harm() {
    in_own_process(|| {
        // SAFETY: a function for the life of the program, which does not unwind.
        unsafe { __register_atfork(Some(others_prepare), None, None, std::ptr::null_mut()) };
        let installs = std::thread::spawn(|| {
            wait_for(FORKING);
            vmalloc_linux::fork::install().unwrap();
        });
        // SAFETY: the child makes few calls, none of which wants a lock of the thread that it
        // lacks.
        let child = unsafe { libc::fork() };
        STEP.store(FORKED, SeqCst);
        if child == 0 {
            // SAFETY: ends a child that waits for itself.
            unsafe { libc::alarm(10) };
            vmalloc_linux::fork::install().unwrap();
            let space = vmalloc_linux::open(
                vmalloc_linux::LinuxOptions::new(),
                vmalloc_linux::SpaceOptions::default(),
            )
            .unwrap();
            // With a second thread forks take locks.
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
            for _ in 0..2 {
                // SAFETY: as above.
                let grandchild = unsafe { libc::fork() };
                let works = space.zeroed_buffer(5000).is_ok();
                if grandchild == 0 {
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(i32::from(!works)) };
                }
                assert!(works && status(grandchild) == 0);
            }
            // SAFETY: ends this process.
            unsafe { libc::_exit(7) };
        }
        installs.join().unwrap();
        assert_eq!(status(child), 7 << 8, "the child of a child ended otherwise");
    });
}

/// Waits for the end of a child. Returns its status.
fn status(child: c_int) -> c_int {
    let mut status = 0;
    // SAFETY: room for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}
