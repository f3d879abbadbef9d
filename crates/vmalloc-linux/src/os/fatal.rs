//! The end of a program whose state is damaged.

use std::fmt::{self, Display, Write};

/// Writes `damage` to the standard error, and stops the program. Takes no lock and no heap: both
/// may be damaged.
pub(crate) fn fatal(damage: &dyn Display) -> ! {
    let mut message = Message::default();
    // A message that is too long is cut.
    let _ = write!(message, "vmalloc: {damage}");
    message.send();
    std::process::abort()
}

/// A line of text, put together in place: it takes no lock and no heap.
pub(crate) struct Message {
    text: [u8; 512],
    len: usize,
}

impl Default for Message {
    fn default() -> Self {
        Self { text: [0; 512], len: 0 }
    }
}

impl Message {
    /// Writes the line to the standard error.
    pub(crate) fn send(mut self) {
        self.text[self.len] = b'\n';
        let _ = rustix::io::write(rustix::stdio::stderr(), &self.text[..=self.len]);
    }
}

impl Write for Message {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // One byte is kept for the end of the line.
        let room = self.text.len() - 1 - self.len;
        let taken = part.len().min(room);
        self.text[self.len..self.len + taken].copy_from_slice(&part.as_bytes()[..taken]);
        self.len += taken;
        if taken == part.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
