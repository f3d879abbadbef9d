//! Lines on stderr, made without allocation.

use std::fmt::{self, Write};

/// The most bytes of a line.
const BYTES: usize = 400;

/// A line of up to as many bytes. What is beyond is left out.
pub(crate) struct Line {
    bytes: [u8; BYTES],
    len: usize,
}

impl Line {
    /// Returns the line of a text.
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self { bytes: [0; BYTES], len: 0 };
        let _ = write!(line, "vmalloc: {text}");
        line.bytes[line.len] = b'\n';
        line
    }

    /// Returns the line with its end.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.bytes[..=self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is for the end of the line.
        let room = self.bytes.len() - 1 - self.len;
        let part = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..][..part.len()].copy_from_slice(part);
        self.len += part.len();
        Ok(())
    }
}

/// Writes one line about the library. `errno` stays as it is.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    // A closed stderr costs the line, and nothing else.
    let _ = rustix::io::write(rustix::stdio::stderr(), Line::new(text).whole());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whose_it_is() {
        assert_eq!(Line::new(format_args!("{} pages", 3)).whole(), b"vmalloc: 3 pages\n");
    }

    #[test]
    fn a_long_line_ends_early() {
        let long = "x".repeat(1000);
        let line = Line::new(format_args!("{long}{long}"));
        assert_eq!((line.whole().len(), line.whole().last()), (BYTES, Some(&b'\n')));
    }
}
