//! A panic below a call of C ends the program with its message, and does not unwind into it.

use std::ffi::{c_int, c_void};
use std::os::unix::process::ExitStatusExt;
use vmalloc_c::{vmalloc_alloc, vmalloc_area, vmalloc_open, vmalloc_walk};
use vmalloc_harness::OwnProcess;

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
    let name = "panics::a_panic_aborts_with_its_message";
    let Some(own) = OwnProcess::of(name) else { return child() };
    let output = own.output();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("a mistake inside"), "{output:?}");
}
