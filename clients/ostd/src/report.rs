//! Reads the lines that a kernel prints.

/// A line of the bench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the measurement.
    pub what: String,
    /// Instructions of a pair of alloc and free, or how many there were.
    pub count: u64,
}

/// The results that a kernel reported until it ended.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tests that passed, by their names.
    pub passed: Vec<String>,
    /// Tests that failed.
    pub failed: Vec<String>,
    /// Lines of the bench.
    pub rows: Vec<Row>,
    /// True if the kernel ran to its end.
    pub is_complete: bool,
    /// All that it printed.
    pub text: String,
}

impl Report {
    /// Reads what a kernel printed. Colours are left out.
    pub(crate) fn read(printed: &str) -> Self {
        let text = without_colours(printed);
        let mut report = Self::default();
        let mut test = None;
        for line in text.lines() {
            if let Some(row) = line.find("BENCH ").and_then(|start| row(&line[start + 6..])) {
                report.rows.push(row);
            }
            if let Some((name, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ...")) {
                test = Some(name.to_owned());
            }
            // A test may print lines between its name and how it ended.
            let list = match line.trim_end() {
                line if line.ends_with(" ok") || line == "ok" => &mut report.passed,
                line if line.ends_with("FAILED") => &mut report.failed,
                _ => continue,
            };
            list.extend(test.take());
        }
        report.is_complete = text.contains("test result:");
        Self { text, ..report }
    }

    /// Returns whether a test whose name ends so has failed.
    #[must_use]
    pub fn has_failed(&self, name: &str) -> bool {
        self.failed.iter().any(|failed| failed.ends_with(name))
    }

    /// Returns what the kernel says at its end about a test that failed, whose name ends so.
    #[must_use]
    pub fn why(&self, name: &str) -> &str {
        let rest = self.text.split_once(&format!("- {name} ----")).map_or("", |(_, rest)| rest);
        rest.split_once("----").map_or(rest, |(why, _)| why)
    }

    /// Returns whether a test whose name ends so has passed.
    #[must_use]
    pub fn has_passed(&self, name: &str) -> bool {
        self.passed.iter().any(|passed| passed.ends_with(name))
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
    fn reasons_are_those_of_the_test_that_is_named() {
        let report =
            Report::read("---- a.rs:1:0 - one ----\n\nfirst\n\n---- a.rs:2:0 - two ----\n\nsecond\n");
        assert_eq!(
            (report.why("one").trim(), report.why("two").trim(), report.why("three")),
            ("first", "second", "")
        );
    }

    #[test]
    fn reports_are_read_with_colours_and_lines_between() {
        let printed = "test a::b ... \u{1b}[32mok\u{1b}[39m\ntest c ...seed 0x1\n \u{1b}[31mFAILED\u{1b}[39m\n\
                       test d ...BENCH mapped 321\nBENCH broken\n \u{1b}[32mok\u{1b}[39m\ntest e ...";
        let report = Report::read(printed);
        assert!(report.has_passed("b") && report.has_failed("c") && report.has_passed("d"));
        assert_eq!((report.passed.len(), report.failed.len(), report.is_complete), (2, 1, false));
        assert_eq!(report.rows, [Row { what: "mapped".into(), count: 321 }]);
    }
}
