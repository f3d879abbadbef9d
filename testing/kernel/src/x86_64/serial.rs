//! The first serial port.

use core::fmt::{self, Write};
use uart_16550::Uart16550;
use uart_16550::backend::PioBackend;

/// The port.
pub(crate) struct Port(Uart16550<PioBackend>);

impl Port {
    pub(crate) const fn new() -> Self {
        // SAFETY: the machine has a 16550 there, and nothing else uses it.
        match unsafe { Uart16550::new_port(0x3f8) } {
            Ok(port) => Self(port),
            Err(_) => panic!("all registers are below the last port"),
        }
    }
}

impl Write for Port {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.send_bytes_exact(text.as_bytes());
        Ok(())
    }
}
