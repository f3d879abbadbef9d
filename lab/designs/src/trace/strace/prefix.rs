//! The thread and the time before a call, in all the ways that strace writes them.

use crate::trace::fields::seconds;

/// Both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Prefix {
    /// 0 where none is written.
    pub(super) task: u32,
    pub(super) time_ns: Option<u64>,
}

impl Prefix {
    /// Takes it off a line.
    pub(super) fn split(line: &str) -> (Self, &str) {
        let (task, line) = task(line.trim_start());
        let (time_ns, line) = time(line);
        (Self { task: task.unwrap_or(0), time_ns }, relative(line))
    }
}

/// `6517 `, or `[pid 6517] `.
fn task(line: &str) -> (Option<u32>, &str) {
    let split = match line.strip_prefix("[pid ") {
        Some(rest) => rest.split_once("] "),
        None => line.split_once(' '),
    };
    let number = split.and_then(|(number, rest)| Some((digits(number.trim())?, rest)));
    number.map_or((None, line), |(number, rest)| (Some(number), rest.trim_start()))
}

fn digits(text: &str) -> Option<u32> {
    let all = text.bytes().all(|b| b.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Seconds since 1970, which have ten digits; those between lines and times of day are taken off
/// too, but tell no time.
fn time(line: &str) -> (Option<u64>, &str) {
    const FIRST_MOMENT: u64 = 1_000_000_000 * 1_000_000_000;
    let Some((word, rest)) = line.split_once(' ') else { return (None, line) };
    match seconds(word) {
        Some(ns) => (Some(ns).filter(|&ns| ns >= FIRST_MOMENT), rest.trim_start()),
        None if is_time_of_day(word) => (None, rest.trim_start()),
        None => (None, line),
    }
}

/// `17:12:01` or `17:12:01.123456`.
fn is_time_of_day(word: &str) -> bool {
    let (time, part) = word.split_once('.').unwrap_or((word, "0"));
    let two_digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    time.split(':').count() == 3
        && time.split(':').all(two_digits)
        && part.bytes().all(|b| b.is_ascii_digit())
}

/// `(+     0.000123)`, behind another time.
fn relative(line: &str) -> &str {
    let inner = line.strip_prefix("(+").and_then(|rest| rest.split_once(')'));
    match inner {
        Some((time, rest)) if seconds(time.trim()).is_some() => rest.trim_start(),
        _ => line,
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
        ] {
            let line = format!("{text}brk(NULL) = 0x1000");
            assert_eq!(Prefix::split(&line), (Prefix { task, time_ns }, "brk(NULL) = 0x1000"), "{text}");
        }
    }
}
