//! The end of the machine.

use crate::serial::print_in_need;
use core::panic::PanicInfo;
use x86_64::instructions::port::Port;

/// How it went. QEMU's exit status is 2n + 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Status {
    /// 33: all is well.
    Passed = 16,
    /// 35: something is not as it should be.
    Failed = 17,
    /// 37: a panic, or an unexpected interrupt.
    Died = 18,
}

/// The port of `isa-debug-exit`.
const PORT: u16 = 0xf4;

/// Ends the machine.
pub(crate) fn exit(status: Status) -> ! {
    // SAFETY: a device of the machine that ends it.
    unsafe { Port::new(PORT).write(status as u32) };
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    print_in_need(format_args!("\n{info}"));
    exit(Status::Died)
}

/// The precompiled `core` and `alloc` name these two; nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(Status::Died)
}
