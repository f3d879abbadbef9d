//! Texts as people pass them on: quoted in a mail, numbered by grep, cut out of a log.
//!
//! The characters that such a text has before each line are its [`Margin`]. A reader looks at the
//! beginning, reads it under each margin in turn, and uses the one that explains most lines.

use regex::Regex;
use std::io::{self, BufRead, Cursor, Read};
use std::sync::LazyLock;

/// Bytes of the beginning.
const HEAD: u64 = 64 << 10;

/// A text that is being read.
pub type Source<'a> = Box<dyn BufRead + 'a>;

/// Fills `line` with the next line, or with its beginning if it has more than `most` bytes: then
/// the rest is skipped. Returns how many bytes that are, and 0 at the end.
pub fn next_line(source: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    line.clear();
    let length = source.by_ref().take(most as u64 + 1).read_until(b'\n', line)?;
    if length > most && !line.ends_with(b"\n") {
        source.skip_until(b'\n')?;
    }
    Ok(length)
}

/// Reads the beginning of a text; returns it, and the whole text.
///
/// # Errors
/// When nothing at all can be read. A later error is met again where it was.
pub fn peek(mut source: Source<'_>) -> io::Result<(Vec<u8>, Source<'_>)> {
    let mut head = Vec::new();
    let whole: Source<'_> = match source.by_ref().take(HEAD).read_to_end(&mut head) {
        Ok(_) => Box::new(Cursor::new(head.clone()).chain(source)),
        Err(error) if head.is_empty() => return Err(error),
        Err(error) => Box::new(Cursor::new(head.clone()).chain(Failed(Some(error)))),
    };
    // The line that the end of the beginning cuts is none.
    match head.iter().rposition(|&byte| byte == b'\n') {
        Some(end) if head.len() as u64 == HEAD => head.truncate(end + 1),
        _ => {}
    }
    Ok((head, whole))
}

/// A source that fails.
pub struct Failed(pub Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

impl BufRead for Failed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.take().map_or(Ok(&[]), Err)
    }

    fn consume(&mut self, _: usize) {}
}

/// The characters that a text has before each line. A line without them is read as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Margin {
    Nothing,
    /// `> `, or `>> `, or `> > `: quoted.
    Quote,
    /// `# `.
    Comment,
    /// `12:` or `12<tab>`: numbered.
    Number,
    /// `[   12.345678] `: from a kernel's log.
    Time,
    /// `file:`, or `file:12:`: found by grep.
    File,
}

impl Margin {
    const ALL: [Self; 6] = [Self::Nothing, Self::Quote, Self::Comment, Self::Number, Self::Time, Self::File];

    /// Returns the margin with the highest score; of equal ones the first.
    pub fn best(score: impl Fn(Self) -> u64) -> Self {
        // Of equal ones the last is the greatest.
        Self::ALL.into_iter().rev().max_by_key(|&margin| score(margin)).unwrap_or(Self::Nothing)
    }

    /// Returns the line without its margin.
    pub fn strip(self, line: &str) -> &str {
        self.behind(line).unwrap_or(line)
    }

    fn behind(self, line: &str) -> Option<&str> {
        const PATTERNS: [&str; 5] =
            [">[> ]*", "# ?", r"\d+[:\t]", r"\[\s*\d+\.\d+\] ", r"[^\s:]*[^\s:\d][^\s:]*:(?:\d+:)?"];
        static MARGINS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
            PATTERNS.map(|margin| Regex::new(&format!(r"^\s*{margin}")).expect("a pattern"))
        });
        // The first one is none.
        let margin = MARGINS[(self as usize).checked_sub(1)?].find(line)?;
        Some(&line[margin.end()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_stripped_where_a_line_has_it() {
        for (margin, line, rest) in [
            (Margin::Nothing, "> x", "> x"),
            (Margin::Quote, "> x", "x"),
            (Margin::Quote, " >> > x > y", "x > y"),
            (Margin::Quote, "x", "x"),
            (Margin::Comment, "# x", "x"),
            (Margin::Comment, "#x", "x"),
            (Margin::Comment, "# # x", "# x"),
            (Margin::Number, "12:x", "x"),
            (Margin::Number, "    12\t  x", "  x"),
            (Margin::Number, ":x", ":x"),
            (Margin::Number, "12 x", "12 x"),
            (Margin::Time, "[    1.25] x", "x"),
            (Margin::Time, "[pid 7] x", "[pid 7] x"),
            (Margin::Time, "[.] x", "[.] x"),
            (Margin::File, "/proc/vmallocinfo:0x1", "0x1"),
            (Margin::File, "a-file.2:12:0x1", "0x1"),
            (Margin::File, "12:0x1", "12:0x1"),
        ] {
            assert_eq!(margin.strip(line), rest, "{margin:?}: {line}");
        }
    }

    #[test]
    fn the_first_of_equally_good_margins_is_taken() {
        assert_eq!(Margin::best(|_| 7), Margin::Nothing);
        assert_eq!(Margin::best(|margin| (margin == Margin::Number).into()), Margin::Number);
    }
}
