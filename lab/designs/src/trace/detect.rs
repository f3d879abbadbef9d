//! Which format a trace has, by its first bytes.

use super::account::Known;
use super::compact::{MAGIC, NAME};
use super::reader::OpenError;
use super::strace::Strace;
use super::{Event, Reason, ftrace};
use serde::Serialize;
use strum::IntoStaticStr;

/// Formats that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// This project's own.
    Compact,
    /// The text of Linux's tracepoints.
    Ftrace,
    /// The text of `strace`.
    Strace,
}

impl Format {
    /// Returns the name as it is told.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The format of what begins with `head`, which is not cut in the middle of its first line.
    pub(super) fn of(head: &[u8]) -> Result<Self, OpenError> {
        if head.is_empty() {
            return Err(OpenError::Empty);
        }
        if head.starts_with(MAGIC) {
            return Ok(Self::Compact);
        }
        if let Some(kind) = foreign(head) {
            return Err(OpenError::Foreign(kind));
        }
        let text = String::from_utf8_lossy(head);
        let (mut kernel, mut program) = (0, 0);
        let mut strace = Strace::default();
        for line in text.lines() {
            kernel += likeness(&ftrace::line(line));
            program += likeness(&strace.line(line));
        }
        match (kernel, program) {
            // A trace of the kernel that has its header and nothing else is one.
            (0, 0) if text.starts_with("# tracer: ") => Ok(Self::Ftrace),
            (0, 0) => Err(unknown(&text)),
            _ if kernel >= program => Ok(Self::Ftrace),
            _ => Ok(Self::Strace),
        }
    }
}

/// How much a line speaks for a format. Empty lines and comments speak for none.
fn likeness(line: &Result<Result<Event, Known>, Reason>) -> u64 {
    match line {
        Ok(Ok(_)) => 1000,
        Ok(Err(Known::Other | Known::Lost(_))) => 2,
        _ => 0,
    }
}

/// Files that people have beside traces.
fn foreign(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(NAME) {
        return Some("a trace in a newer version of the compact format");
    }
    if head.starts_with(b"\x17\x08Dtracing") {
        return Some("a binary recording of trace-cmd; 'trace-cmd report' prints it as text");
    }
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Some("a binary recording of perf, which is not read");
    }
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = std::str::from_utf8(first).ok()?;
    if is_vmallocinfo(first) {
        return Some("a listing from /proc/vmallocinfo: areas of one moment, not events over time");
    }
    is_maps(first).then_some("a listing from /proc/*/maps: mappings of one moment, not events over time")
}

/// `0xffffc90000000000-0xffffc90000005000   20480 function+0x1/0x2 …`.
fn is_vmallocinfo(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let range = words.next().and_then(|word| word.split_once('-'));
    range.is_some_and(|(start, end)| start.starts_with("0x") && end.starts_with("0x"))
        && words.next().is_some_and(|size| size.parse::<u64>().is_ok())
}

/// `7fb4e6b7b000-7fb4e6b87000 r-xp …`.
fn is_maps(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).is_ok();
    let range = words.next().and_then(|word| word.split_once('-'));
    let rights = words.next().is_some_and(|word| word.len() == 4 && word.ends_with(['p', 's']));
    range.is_some_and(|(start, end)| hex(start) && hex(end)) && rights
}

fn unknown(text: &str) -> OpenError {
    const SHOWN: usize = 60;
    let first = text.lines().next().unwrap_or_default();
    OpenError::Unknown(first.chars().take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_content() {
        let ftrace = "# tracer: nop\n  a-1 [000] ..... 1.0: free_vmap_area_noflush: va_start=0x1000 nr_lazy=7 nr_lazy_max=1\n";
        for (head, format) in [
            ("vmtrace1", Format::Compact),
            (ftrace, Format::Ftrace),
            ("# tracer: nop\n#\n", Format::Ftrace),
            ("damage\n1 brk(NULL) = 0x1000\n", Format::Strace),
            ("brk(NULL) = 0x1000", Format::Strace),
        ] {
            assert_eq!(Format::of(head.as_bytes()).expect(head), format, "{head}");
        }
    }

    #[test]
    fn other_files_are_refused_by_name() {
        for (head, words) in [
            ("", "is empty"),
            ("vmtrace7", "newer version"),
            ("\x17\x08Dtracing", "trace-cmd report"),
            ("PERFILE2", "perf"),
            ("0x00000000e39d69e2-0x0000000090e6f64c   20480 irq_init+0xf4/0x130 vmap\n", "/proc/vmallocinfo"),
            ("7fb4e6b7b000-7fb4e6b87000 r-xp 00000000 00:00 0 [heap]\n", "/proc/*/maps"),
            ("once upon a time", "'once upon a time'"),
            ("\n\n", "no format"),
        ] {
            let error = Format::of(head.as_bytes()).expect_err(head).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
