//! Reads the lines that a kernel prints.

/// A line of the bench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the measurement.
    pub what: String,
    /// Instructions of a pair of alloc and free, or how many there were.
    pub count: u64,
}

/// What a kernel reported until it ended.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// True if it ended as a program that succeeds does.
    pub has_succeeded: bool,
    /// All that it printed, without colours.
    pub text: String,
}

/// The status of QEMU that Hermit's runner takes for success.
const SUCCESS: i32 = 3;

impl Report {
    /// Reads what a kernel printed.
    pub(crate) fn read(printed: &str, status: Option<i32>) -> Self {
        Self { has_succeeded: status == Some(SUCCESS), text: without_colours(printed) }
    }

    /// Returns the lines that begin with a word, without it.
    #[must_use]
    pub fn rows(&self, word: &str) -> Vec<Row> {
        let lines = self.text.lines().filter_map(|line| line.trim().strip_prefix(word));
        lines.filter_map(row).collect()
    }

    /// Returns the tests of the kernel's own harness that have passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.text.matches("[ok]").count()
    }

    /// Returns the number in base 16 that follows some words.
    #[must_use]
    pub fn address(&self, words: &str) -> Option<u64> {
        let (_, rest) = self.text.split_once(words)?;
        let digits = rest.trim_start().strip_prefix("0x")?;
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(digits.len());
        u64::from_str_radix(&digits[..end], 16).ok()
    }
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let what = words.next()?.to_owned();
    Some(Row { what, count: words.next()?.parse().ok()? })
}

fn without_colours(printed: &str) -> String {
    let mut parts = printed.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_addresses_are_read() {
        let report =
            Report::read("a::b...\t[ok]\nBENCH task 17\n[\u{1b}[31mERROR\u{1b}[0m] at = 0x1f00\n", Some(3));
        assert!(report.has_succeeded);
        assert_eq!(report.passed(), 1);
        assert_eq!(report.rows("BENCH"), [Row { what: "task".into(), count: 17 }]);
        assert_eq!((report.address("at ="), report.address("BENCH")), (Some(0x1f00), None));
    }
}
