//! Lines of a text of any length, each held alone and none longer than a tracer writes.

use super::account::Reason;
use std::io::BufRead;
use vmalloc_inspect::program::text::next_line;

/// Bytes of the longest line that is read: sixteen times the page that the kernel formats a line of
/// its trace in.
pub(super) const LONGEST: usize = 64 << 10;

/// A text, line by line.
pub(super) struct Lines<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, line: Vec::new(), number: 0, ended: false }
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end, or why there is none to be read; `None` behind the last.
    /// Behind an unreadable source there is none.
    pub(super) fn next(&mut self) -> Option<Result<&str, Reason>> {
        if self.ended {
            return None;
        }
        let length = match next_line(&mut self.source, &mut self.line, LONGEST) {
            Ok(0) => {
                self.ended = true;
                return None;
            }
            Ok(length) => length,
            Err(error) => {
                self.ended = true;
                self.number += 1;
                return Some(Err(Reason::Unreadable(error.to_string())));
            }
        };
        self.number += 1;
        if length > LONGEST { Some(Err(Reason::TooLong(LONGEST))) } else { Some(text(&self.line)) }
    }
}

fn text(line: &[u8]) -> Result<&str, Reason> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&0) {
        return Err(Reason::Nul);
    }
    std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn all(bytes: &[u8], buffer: usize) -> Vec<Result<String, Reason>> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, bytes));
        std::iter::from_fn(|| lines.next().map(|line| line.map(String::from))).collect()
    }

    #[test]
    fn lines_end_with_a_newline_or_the_text() {
        for buffer in [1, 3, 1000] {
            let found = all(b"one\n\r\ntwo\r\n\xff\na\0b\nlast", buffer);
            let good = |text: &str| Ok(text.to_owned());
            let expected =
                [good("one"), good(""), good("two"), Err(Reason::NotUtf8), Err(Reason::Nul), good("last")];
            assert_eq!(found, expected);
        }
        assert_eq!(all(b"", 10), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_without_being_held() {
        let text = std::io::repeat(b'x').take(100 << 20).chain(&b"\nafter\n"[..]);
        let mut lines = Lines::new(BufReader::new(text));
        assert_eq!(lines.next(), Some(Err(Reason::TooLong(LONGEST))));
        assert!(lines.line.capacity() <= 4 * LONGEST);
        assert_eq!(lines.next(), Some(Ok("after")));
        assert_eq!(lines.number(), 2);
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_source_that_fails_ends_the_text() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let mut lines = Lines::new(BufReader::new((&b"one\ntw"[..]).chain(Fails)));
        assert_eq!(lines.next(), Some(Ok("one")));
        assert_eq!(lines.next(), Some(Err(Reason::Unreadable("gone".into()))));
        assert_eq!((lines.number(), lines.next()), (2, None));
    }
}
