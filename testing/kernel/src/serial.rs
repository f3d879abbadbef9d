//! Text out of the machine's serial port.

use crate::arch::Port;
use crate::cpu::Here;
use core::fmt::{self, Write};
use lock_api::Mutex;
use vmalloc_tables::IrqLock;

static SERIAL: Mutex<IrqLock<Here>, Port> = Mutex::new(Port::new());

/// Prints a line while no other CPU prints.
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    // Writing to the port does not fail.
    let _ = writeln!(SERIAL.lock(), "{text}");
}

/// Prints a line without the lock, which the interrupted code may hold.
pub(crate) fn print_in_need(text: fmt::Arguments<'_>) {
    let _ = writeln!(Port::new(), "{text}");
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::serial::print_line(format_args!($($text)*)) };
}
pub(crate) use say;
