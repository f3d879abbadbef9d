//! Which format a trace has, by its first bytes.

use super::account::Known;
use super::reader::OpenError;
use super::strace::Strace;
use super::{Event, Reason, ftrace};
use regex::Regex;
use serde::Serialize;
use strum::IntoStaticStr;
use vmalloc_inspect::program::text::Margin;

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
        let text = String::from_utf8_lossy(head);
        let margin = Margin::best(|margin| text_format(&text, margin).0);
        let (likeness, format) = text_format(&text, margin);
        match likeness {
            EVENT.. => Ok((format, margin)),
            _ if let Some(kind) = foreign(&text) => Err(OpenError::Foreign(kind)),
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

/// Files that people have beside traces, by what is in them, and what they are called. A listing
/// may have a margin.
const FOREIGN: [(&str, &str); 18] = [
    (r"\A\x17\x08Dtracing", "a binary recording of trace-cmd; 'trace-cmd report' prints it as text"),
    (r"\A(?:PERFILE2|2ELIFREP)", "a binary recording of perf, which is not read"),
    (r"(?m)^% time +seconds +usecs/call", "the counts of 'strace -c', not events; without -c it writes them"),
    (
        r"(?m)^ *\d+\.\d+ \((?: *\d+\.\d+ ms| *)\): ",
        "the output of 'perf trace', which is not read; 'strace -f' records the same calls",
    ),
    (
        r"(?m)^.{0,60}\bSYS_\w+\(|(?m)^(?:\[pid +\d+\] |\d+ )?\S*(?:malloc|calloc|realloc|free)\(.*\) += ",
        "the output of ltrace, which is not read; 'strace -f' records calls of the kernel",
    ),
    (r"(?m)^ *\d+ \S+ +(?:CALL|RET|NAMI) ", "the output of kdump (ktrace), which is not read"),
    (r"(?m)^SYSCALL\(args\) ", "the output of dtruss, which is not read"),
    (
        r"(?m)^(?:\d+(?: \d+)?: )?[a-z_0-9]+\(.*\)\s+= \d+ \(0x[[:xdigit:]]+\)$",
        "the output of truss, which is not read",
    ),
    (r"(?m)^SYSCALL\[\d+,\d+\]", "the calls that valgrind traced, which are not read"),
    (r"(?m)^\d+ \d\d:\d\d:\d\d\.\d{9} \d+ .* [<>] \w+", "the output of sysdig, which is not read"),
    (r"(?m)^\[\d\d:\d\d:\d\d\.\d{9}\] .*: \{ ", "the output of babeltrace (LTTng), which is not read"),
    (r"\AAttaching \d+ probes?\.\.\.|(?m)^@\w*(?:\[.*\])?: ", "the output of bpftrace, which is not read"),
    (
        r"\A(?:[> ]+|# ?|\d+[:\t]|\[ *\d+\.\d+\] |[^\s:]+:(?:\d+:)?)?0x\S+-0x\S+\s+\d+\s",
        "a listing from /proc/vmallocinfo: areas of one moment, not events over time; 'vmalloc map' draws it",
    ),
    (
        r"\A(?:[> ]+|# ?|\d+[:\t]|\[ *\d+\.\d+\] )?[[:xdigit:]]+-[[:xdigit:]]+ \S{3}[ps] ",
        "a listing from /proc/*/maps: mappings of one moment, not events over time",
    ),
    (
        r" (?:vmalloc|percpu):",
        "the output of 'perf script', which is not read; 'trace-cmd record -e vmalloc' records the same events",
    ),
    // `# nop latency trace v1.1.5`, or `bash-157  1d..1. 9992079us+: alloc_vmap_area: …`.
    (r"(?m)^#.* latency trace v|\dus[ !+#*@$]*: ", LATENCY),
    (
        "vmap allocation for size",
        "a kernel log with failed allocations, not events; 'vmalloc why' explains them",
    ),
    (r"(?m)^\s*\[ *\d+\.\d+\] ", "a kernel log (dmesg), not events"),
];
const LATENCY: &str = "ftrace's latency format, which dumps in a kernel log have too; \
                       'echo 0 > /sys/kernel/tracing/options/latency-format' ends it";

fn foreign(text: &str) -> Option<&'static str> {
    let is_like = |pattern: &str| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
    FOREIGN.into_iter().find(|(pattern, _)| is_like(pattern)).map(|(_, kind)| kind)
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
            ("% time     seconds  usecs/call     calls    errors syscall\n", "strace -c"),
            ("     0.000 ( 0.004 ms): bash/12 mmap(len: 8192, prot: READ|WRITE) = 0x7f\n", "perf trace"),
            ("12 SYS_mmap(0, 8192, 3, 34) = 0x7f9781d40000\n", "ltrace"),
            ("malloc(32)                    = 0x55d0c0ffee00\n", "ltrace"),
            ("  4711 python3  CALL  mmap(0,0x2000,0x3,0x1002,0xffffffff,0)\n", "ktrace"),
            ("SYSCALL(args) \t\t = return\nmunmap(0x1, 0x2)\t\t = 0 0\n", "dtruss"),
            ("4711: sigprocmask(SIG_SETMASK,{ },0x0)\t = 34366607360 (0x800676000)\n", "truss"),
            ("SYSCALL[4711,1](9) sys_mmap ( 0x0, 8192, 3, 34, -1, 0 ) --> [pre-success]\n", "valgrind"),
            ("1 14:22:01.123456789 0 bash (12) > mmap addr=0 length=8192\n", "sysdig"),
            (
                "[14:22:01.123456789] (+?.?) host syscall_entry_mmap: { cpu_id = 0 }, { len = 1 }\n",
                "babeltrace",
            ),
            ("Attaching 2 probes...\n4711 mmap 8192\n", "bpftrace"),
            ("once upon a time", "'once upon a time'"),
            ("\n\n", "no format"),
        ] {
            let error = Format::of(head.as_bytes()).expect_err(head).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
