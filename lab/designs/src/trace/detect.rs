//! Which format a trace has, by its first bytes.

use super::account::Known;
use super::reader::OpenError;
use super::strace::Strace;
use super::{Event, Reason, ftrace};
use crate::text::Margin;
use serde::Serialize;
use strum::IntoStaticStr;

/// Formats that are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Format {
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

    /// The format of what begins with `head`, which is not cut in the middle of its first line, and
    /// what each of its lines has before it.
    pub(super) fn of(head: &[u8]) -> Result<(Self, Margin), OpenError> {
        if head.is_empty() {
            return Err(OpenError::Empty);
        }
        if let Some(kind) = foreign(head) {
            return Err(OpenError::Foreign(kind));
        }
        let text = String::from_utf8_lossy(head);
        let margin = Margin::best(|margin| text_format(&text, margin).0);
        let (likeness, format) = text_format(&text, margin);
        match likeness {
            EVENT.. => Ok((format, margin)),
            _ if let Some(kind) = foreign_text(&text) => Err(OpenError::Foreign(kind)),
            // A trace of the kernel that has its header and nothing else is one.
            0 if text.starts_with("# tracer: ") => Ok((Self::Ftrace, Margin::Nothing)),
            0 => Err(unknown(&text)),
            _ => Ok((format, margin)),
        }
    }
}

/// Returns the format that a text is most like, and how much.
fn text_format(text: &str, margin: Margin) -> (u64, Format) {
    let (mut kernel, mut program) = (0, 0);
    let mut strace = Strace::default();
    for line in text.lines().map(|line| margin.strip(line)) {
        kernel += likeness(&ftrace::line(line));
        program += likeness(&strace.line(line));
    }
    if kernel >= program { (kernel, Format::Ftrace) } else { (program, Format::Strace) }
}

/// The likeness that one event gives.
const EVENT: u64 = 1000;

/// How much a line speaks for a format. Empty lines and comments speak for none.
fn likeness(line: &Result<Result<Event, Known>, Reason>) -> u64 {
    match line {
        Ok(Ok(_)) => EVENT,
        Ok(Err(Known::Other | Known::Lost(_))) => 2,
        _ => 0,
    }
}

/// Files that people have beside traces.
fn foreign(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"\x17\x08Dtracing") {
        return Some("a binary recording of trace-cmd; 'trace-cmd report' prints it as text");
    }
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Some("a binary recording of perf, which is not read");
    }
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = std::str::from_utf8(first).ok()?;
    if Margin::any(first, is_vmallocinfo) {
        return Some(
            "a listing from /proc/vmallocinfo: areas of one moment, not events over time; 'vmalloc map' draws it",
        );
    }
    Margin::any(first, is_maps)
        .then_some("a listing from /proc/*/maps: mappings of one moment, not events over time")
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

/// Texts of the kernel without an event that is read.
fn foreign_text(text: &str) -> Option<&'static str> {
    let has = |is: fn(&str) -> bool| text.lines().any(is);
    match () {
        () if has(|line| line.contains(" vmalloc:") || line.contains(" percpu:")) => Some(
            "the output of 'perf script', which is not read; 'trace-cmd record -e vmalloc' records the same events",
        ),
        () if has(is_latency) => Some(
            "ftrace's latency format, which dumps in a kernel log have too; \
             'echo 0 > /sys/kernel/tracing/options/latency-format' ends it",
        ),
        () if has(|line| line.contains("vmap allocation for size")) => {
            Some("a kernel log with failed allocations, not events; 'vmalloc why' explains them")
        }
        () if has(|line| Margin::Time.strip(line) != line) => Some("a kernel log (dmesg), not events"),
        () => None,
    }
}

/// `# nop latency trace v1.1.5`, or `bash-157  1d..1. 9992079us+: alloc_vmap_area: …`.
fn is_latency(line: &str) -> bool {
    let is_time = |head: &str| {
        let time = head.trim_end_matches([' ', '!', '+', '#', '*', '@', '$']);
        time.strip_suffix("us").is_some_and(|time| time.ends_with(|c: char| c.is_ascii_digit()))
    };
    line.starts_with('#') && line.contains(" latency trace v")
        || line.split_once(": ").is_some_and(|(head, _)| is_time(head))
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
            (ftrace, Format::Ftrace),
            ("# tracer: nop\n#\n", Format::Ftrace),
            ("damage\n1 brk(NULL) = 0x1000\n", Format::Strace),
            ("brk(NULL) = 0x1000", Format::Strace),
        ] {
            let found = Format::of(head.as_bytes()).expect(head);
            assert_eq!(found, (format, Margin::Nothing), "{head}");
        }
    }

    #[test]
    fn a_margin_of_all_lines_is_told_from_times_and_threads() {
        let call = "brk(NULL) = 0x1000";
        for (line, margin) in [
            ("> > 17:12:01 CALL", Margin::Quote),
            ("# 6517  1795256477.536862 CALL", Margin::Comment),
            ("4:17:12:01 CALL", Margin::Number),
            ("17:12:01 CALL", Margin::Nothing),
            ("[    9.992079] CALL", Margin::Time),
            ("[pid  6517] CALL", Margin::Nothing),
        ] {
            let head = format!("On Tuesday somebody wrote:\n{}\n", line.replace("CALL", call));
            let found = Format::of(head.as_bytes()).expect(line);
            assert_eq!(found, (Format::Strace, margin), "{line}");
        }
    }

    #[test]
    fn other_files_are_refused_by_name() {
        for (head, words) in [
            ("", "is empty"),
            ("\x17\x08Dtracing", "trace-cmd report"),
            ("PERFILE2", "perf"),
            ("0x00000000e39d69e2-0x0000000090e6f64c   20480 irq_init+0xf4/0x130 vmap\n", "/proc/vmallocinfo"),
            ("7fb4e6b7b000-7fb4e6b87000 r-xp 00000000 00:00 0 [heap]\n", "/proc/*/maps"),
            ("> 7fb4e6b7b000-7fb4e6b87000 r-xp 00000000 00:00 0 [heap]\n", "/proc/*/maps"),
            ("  bash   157 [001]     9.992079: vmalloc:alloc_vmap_area: va_start: 1 size=1\n", "perf script"),
            ("# tracer: nop\n#\n# nop latency trace v1.1.5 on 6.12\n", "latency format"),
            ("[    1.5] bash-157       1d..1. 9992079us+: alloc_vmap_area: va_start: 1\n", "latency format"),
            ("[    1.5] vmap allocation for size 4096 failed: use vmalloc=<size>\n", "'vmalloc why'"),
            ("[    0.000000] Linux version 6.12\n", "dmesg"),
            ("once upon a time", "'once upon a time'"),
            ("\n\n", "no format"),
        ] {
            let error = Format::of(head.as_bytes()).expect_err(head).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
