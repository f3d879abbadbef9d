//! The examples run.

#[path = "../../examples/device_windows.rs"]
mod device_windows;

#[test]
fn device_windows_example_runs() {
    device_windows::main().expect("two windows and a fence");
}
