//! The end of the machine.

use crate::arch;
use crate::serial::print_in_need;
use core::panic::PanicInfo;

/// How it went. The exit status of QEMU is 2n + 1.
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

/// Ends the machine.
pub(crate) fn exit(status: Status) -> ! {
    arch::end(status as u32)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    print_in_need(format_args!("\n{info}"));
    exit(Status::Died)
}
