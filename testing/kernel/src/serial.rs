//! Text out of the first serial port.

use crate::cpu::Here;
use core::fmt::{self, Write};
use lock_api::Mutex;
use uart_16550::Uart16550;
use uart_16550::backend::PioBackend;
use vmalloc_tables::IrqLock;

struct Serial(Uart16550<PioBackend>);

impl Serial {
    const fn new() -> Self {
        // SAFETY: the machine has a 16550 there, and nothing else uses it.
        match unsafe { Uart16550::new_port(0x3f8) } {
            Ok(port) => Self(port),
            Err(_) => panic!("all registers are below the last port"),
        }
    }
}

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.send_bytes_exact(text.as_bytes());
        Ok(())
    }
}

static SERIAL: Mutex<IrqLock<Here>, Serial> = Mutex::new(Serial::new());

/// Prints a line while no other CPU prints.
pub(crate) fn print_line(text: fmt::Arguments<'_>) {
    // Writing to the port does not fail.
    let _ = writeln!(SERIAL.lock(), "{text}");
}

/// Prints a line without the lock, which the interrupted code may hold.
pub(crate) fn print_in_need(text: fmt::Arguments<'_>) {
    let _ = writeln!(Serial::new(), "{text}");
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::serial::print_line(format_args!($($text)*)) };
}
pub(crate) use say;
