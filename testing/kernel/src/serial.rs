//! Text out of the first serial port.

use crate::cpu::Here;
use core::fmt::{self, Write};
use lock_api::Mutex;
use vmalloc_x86_64::IrqLock;
use x86_64::instructions::port::Port;

const BASE: u16 = 0x3f8;
const LINE_STATUS: u16 = BASE + 5;
const READY: u8 = 1 << 5;

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the machine has a 16550 there, and nobody else uses it.
            unsafe {
                while Port::<u8>::new(LINE_STATUS).read() & READY == 0 {}
                Port::new(BASE).write(byte);
            }
        }
        Ok(())
    }
}

static SERIAL: Mutex<IrqLock<Here>, Serial> = Mutex::new(Serial);

/// Prints a line that no other CPU's comes into.
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    // Writing to the port does not fail.
    let _ = writeln!(SERIAL.lock(), "{text}");
}

/// The same where the lock may be held by whoever was interrupted.
pub(crate) fn print_in_need(text: fmt::Arguments<'_>) {
    let _ = writeln!(Serial, "{text}");
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::serial::print_line(format_args!($($text)*)) };
}
pub(crate) use say;
