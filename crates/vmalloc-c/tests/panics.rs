//! A panic below a call of C ends the program with its message, and does not unwind into it.

use std::ffi::{c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use vmalloc_c::{vmalloc_alloc, vmalloc_area, vmalloc_open, vmalloc_walk};

const CHILD: &str = "VMALLOC_TEST_PANICS";

unsafe extern "C-unwind" fn panics(_: *mut c_void, _: *const vmalloc_area) -> c_int {
    panic!("a mistake inside");
}

/// Panics inside a call of C, and catches what comes out of it.
fn child() {
    let walked = std::panic::catch_unwind(|| {
        let null = std::ptr::null_mut();
        // SAFETY: the handle is open, and the callback has no other condition.
        unsafe {
            let space = vmalloc_open(std::ptr::null(), std::ptr::null_mut());
            assert!(!vmalloc_alloc(space, 1, std::ptr::null_mut()).is_null());
            vmalloc_walk(space, null, Some(panics), null, std::ptr::null_mut())
        }
    });
    println!("the call has ended: {walked:?}");
}

#[test]
fn a_panic_aborts_with_its_message() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let test = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(test);
    command.args(["a_panic_aborts_with_its_message", "--exact", "--nocapture"]).env(CHILD, "1");
    let output = command.output().expect("it can be started");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("a mistake inside"), "{output:?}");
}
