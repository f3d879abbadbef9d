//! What a machine reports: how each command ended, and the counts of its tests.

use crate::step::Counts;

/// The report of one command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) counts: Counts,
    pub(super) millis: u64,
    /// Says why the command failed; `None` if it passed.
    pub(super) failure: Option<String>,
    /// What it wrote.
    pub(super) lines: Vec<String>,
}

/// Reads the lines of a console, one after another.
#[derive(Default)]
pub(super) struct Reader {
    lines: Vec<String>,
    pub(super) is_over: bool,
}

impl Reader {
    /// Takes a line. Returns the report of the command that ends with it.
    pub(super) fn take(&mut self, line: &str) -> Option<Ended> {
        let Some(words) = line.strip_prefix("== ") else {
            self.lines.push(line.to_owned());
            return None;
        };
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        match word {
            "end" => return Some(self.end(rest)),
            "begin" => self.lines.clear(),
            "over" => self.is_over = true,
            _ => println!("{words}"),
        }
        None
    }

    /// Returns what came since the last command began.
    pub(super) fn rest(&self) -> &[String] {
        &self.lines
    }

    fn end(&mut self, words: &str) -> Ended {
        let lines = std::mem::take(&mut self.lines);
        let mut words = words.splitn(3, ' ');
        let name = words.next().unwrap_or_default().to_owned();
        let millis = words.next().and_then(|millis| millis.parse().ok()).unwrap_or_default();
        let ended = words.next().unwrap_or("no status");
        let mut counts = Counts::of(&lines.join("\n"));
        let failure = match (ended, lines.iter().any(|line| line.starts_with("test result: "))) {
            ("exit 0", true) => None,
            ("exit 0", false) => Some("it reported no tests".to_owned()),
            _ => Some(ended.to_owned()),
        };
        // A program that died or hung tells no counts of its own.
        counts.failed = counts.failed.max(u64::from(failure.is_some()));
        Ended { name, counts, millis, failure, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Vec<Ended> {
        let mut reader = Reader::default();
        lines.iter().filter_map(|line| reader.take(line)).collect()
    }

    #[test]
    fn counts_of_a_program_are_its_own_and_those_of_one_that_hung_are_one_failure() {
        let result =
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s";
        let ended = read(&[
            "noise of the machine",
            "== begin linux/space",
            result,
            "== end linux/space 1500 exit 0",
            "== begin linux/drain",
            "test one ... ok",
            "== end linux/drain 60000 late",
        ]);
        let [space, drain] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(
            (space.counts, space.millis),
            (Counts { passed: 5, skipped: 1, ..Counts::default() }, 1500)
        );
        assert_eq!((space.failure.as_deref(), space.lines.len()), (None, 1));
        assert_eq!((drain.counts.failed, drain.failure.as_deref()), (1, Some("late")));
    }

    #[test]
    fn a_program_without_tests_fails() {
        let ended = read(&["== begin x", "== end x 10 exit 0"]);
        assert_eq!(ended[0].failure.as_deref(), Some("it reported no tests"));
    }
}
