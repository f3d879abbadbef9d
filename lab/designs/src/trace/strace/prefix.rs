//! The thread and the time before a call, in all the ways that strace writes them.

use crate::trace::fields::seconds;
use regex::Regex;
use std::sync::LazyLock;

/// `6517 ` or `[pid 6517] `, with `<name>` behind the number (`-Y`); seconds, or a time of day;
/// seconds between lines, which may stand behind another time; the number of the call in brackets
/// (`-n`), and the address that it comes from (`-i`).
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^\s*(?:(?:\[pid +(?<pid>\d+)(?:<.*?>)?\]|(?<task>\d+)(?:<.*?>)?) +)?",
        r"(?:(?:(?<time>\d+(?:\.\d+)?)|\d\d:\d\d:\d\d(?:\.\d+)?) +)?(?:\(\+ *\d+(?:\.\d+)?\) *)?",
        r"(?:\[ *\d+\] +)?(?:\[(?:[[:xdigit:]]+|\?+)\] +)?"
    ))
    .expect("a pattern")
});

/// Both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prefix {
    /// 0 where none is written.
    pub(super) task: u32,
    pub(super) time_ns: Option<u64>,
}

impl Prefix {
    /// Takes it off a line. Only seconds since 1970, which have ten digits, tell a time.
    pub(super) fn split(line: &str) -> (Self, &str) {
        const FIRST_MOMENT: u64 = 1_000_000_000 * 1_000_000_000;
        let Some(parts) = PREFIX.captures(line) else { return (Self::default(), line) };
        let task = parts.name("pid").or(parts.name("task")).and_then(|task| task.as_str().parse().ok());
        let time_ns = parts.name("time").and_then(|time| seconds(time.as_str()));
        let prefix = Self { task: task.unwrap_or(0), time_ns: time_ns.filter(|&ns| ns >= FIRST_MOMENT) };
        (prefix, &line[parts[0].len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_thread_and_time_is_taken_off() {
        let moment = Some(1_795_256_477_536_862_000);
        for (text, task, time_ns) in [
            ("", 0, None),
            ("6517  ", 6517, None),
            ("[pid  6517] ", 6517, None),
            ("6517  1795256477.536862 ", 6517, moment),
            ("1795256477.536862 ", 0, moment),
            ("[pid 7] 17:12:01 ", 7, None),
            ("7 17:12:01.123456 ", 7, None),
            ("     0.000123 ", 0, None),
            ("7      0.000123 ", 7, None),
            ("7 17:12:01 (+     0.000123) ", 7, None),
            ("4711<python3> ", 4711, None),
            ("[pid 4711<a> b>] ", 4711, None),
            ("4711 [00007f02ed2cead7] ", 4711, None),
            ("[????????????????] ", 0, None),
            ("4711 [   9] ", 4711, None),
            ("[pid  7<sh>] 17:12:01 [  12] [00007f02ed2cead7] ", 7, None),
        ] {
            let line = format!("{text}brk(NULL) = 0x1000");
            assert_eq!(Prefix::split(&line), (Prefix { task, time_ns }, "brk(NULL) = 0x1000"), "{text}");
        }
    }
}
