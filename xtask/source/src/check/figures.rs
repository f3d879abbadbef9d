//! Instructions that the documents tell are those of the rows that `cargo xtask instructions` holds,
//! and README tells no time that `cargo xtask figures` would not compare.

use super::Violation;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

const PATH: &str = "docs/figures.toml";
const README: &str = "README.md";
const ROWS: [&str; 2] = ["docs/instructions.toml", "docs/kernel-instructions.toml"];

/// The lines that tell counts.
#[derive(serde::Deserialize)]
struct Figures {
    line: Vec<Line>,
    time: Vec<Time>,
    command: BTreeMap<String, Command>,
}

/// A line of a document that tells times: how it begins, and the command that prints them.
#[derive(serde::Deserialize)]
struct Time {
    file: String,
    begins: String,
    command: String,
}

/// A command that prints times.
#[derive(serde::Deserialize)]
struct Command {
    words: String,
}

/// The table of README whose rows are all compared.
const TABLE: &str = "| | vmalloc | instead |";

/// A line of a document: how it begins, or its table; and the rows that its numbers are.
#[derive(serde::Deserialize)]
struct Line {
    file: String,
    #[serde(default)]
    begins: String,
    #[serde(default)]
    table: String,
    rows: Vec<String>,
}

pub(super) fn check(found: &mut Vec<Violation>) -> Result<()> {
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for path in ROWS {
        counts.append(&mut parse(path)?);
    }
    let figures: Figures = parse(PATH)?;
    let readme = crate::read(README)?;
    for what in figures.gaps(&readme) {
        found.push(Violation::new("figures", "docs", README, what));
    }
    for line in figures.line {
        let path = Path::new(&line.file);
        let text = crate::read(path)?;
        let complaint = line.numbers(&text).and_then(|numbers| line.compare(&numbers, &counts));
        if let Err(what) = complaint {
            found.push(Violation::new("figures", "docs", line.file, what));
        }
    }
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(path: &str) -> Result<T> {
    let text = crate::read(path)?;
    toml::from_str(&text).with_context(|| path.to_owned())
}

impl Figures {
    /// Returns complaints about rows of README that no command compares, and about commands that it
    /// does not name.
    fn gaps(&self, readme: &str) -> Vec<String> {
        let rows = readme.lines().skip_while(|line| !line.starts_with(TABLE)).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let begins: Vec<_> =
            self.line.iter().map(|it| &it.begins).chain(self.time.iter().map(|it| &it.begins)).collect();
        let is_compared =
            |row: &&str| begins.iter().any(|begins| !begins.is_empty() && row.starts_with(begins.as_str()));
        let mut gaps: Vec<_> =
            rows.filter(|row| !is_compared(row)).map(|row| format!("nothing compares {row}")).collect();
        for time in self.time.iter().filter(|time| time.file == README) {
            match self.command.get(&time.command) {
                Some(command) if readme.contains(&command.words) => {}
                _ => gaps.push(format!("it does not name the command of {:?}", time.begins)),
            }
        }
        gaps
    }
}

impl Line {
    /// Returns the numbers of the line.
    fn numbers(&self, text: &str) -> Result<Vec<u64>, String> {
        let mut lines = text.lines();
        let line = match self.table.as_str() {
            "" => lines.find_map(|line| line.strip_prefix(&self.begins)),
            table => lines.by_ref().find(|line| line.starts_with(table)).and_then(|_| lines.nth(1)),
        };
        let line =
            line.ok_or_else(|| format!("no line begins with {:?}", [&*self.begins, &self.table].concat()))?;
        let words = line.split(|char: char| !char.is_ascii_digit() && char != ',');
        Ok(words.filter_map(|word| word.replace(',', "").parse().ok()).collect())
    }

    fn compare(&self, numbers: &[u64], counts: &BTreeMap<String, f64>) -> Result<(), String> {
        for (nth, row) in self.rows.iter().enumerate() {
            let count = counts.get(row).ok_or_else(|| format!("{row:?} is no row"))?;
            let told = numbers.get(nth).ok_or_else(|| format!("there is no number for {row}"))?;
            if *told != count.round() as u64 {
                return Err(format!("{row} is {told} here, and {count} where it was counted"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_nothing_compares_are_found() {
        let text = "[[line]]\nfile = \"README.md\"\nbegins = \"| a |\"\nrows = []\n\
            [[time]]\nfile = \"README.md\"\nbegins = \"| b |\"\ncommand = \"c\"\n[command.c]\nwords = \"run c\"\n";
        let figures: Figures = toml::from_str(text).expect("TOML");
        let readme = |row: &str| format!("{TABLE}\n|---|\n| a | 1 |\n| b | 2 |\n{row}\n\n| other |\n");
        assert_eq!(figures.gaps(&readme("`run c`")), Vec::<String>::new());
        assert_eq!(figures.gaps(&readme("| c | 3 |\n`run c`")), ["nothing compares | c | 3 |"]);
        assert_eq!(figures.gaps(&readme("")).len(), 1);
    }

    #[test]
    fn numbers_are_compared_with_their_rows() {
        let line = |begins: &str, table: &str| Line {
            file: String::new(),
            begins: begins.into(),
            table: table.into(),
            rows: ["a", "b"].map(str::to_owned).to_vec(),
        };
        let text = "| A | B |\n|---|---|\n| 7 | 1,234 |\n| sum | 7 and 1,235 |\n";
        let counts = [("a".to_owned(), 7.2), ("b".to_owned(), 1233.9)].into_iter().collect();
        let of_table = line("", "| A |");
        assert_eq!(of_table.numbers(text), Ok(vec![7, 1234]));
        assert_eq!(of_table.compare(&[7, 1234], &counts), Ok(()));
        let of_line = line("| sum |", "");
        assert_eq!(of_line.numbers(text), Ok(vec![7, 1235]));
        assert!(of_line.compare(&[7, 1235], &counts).is_err() && of_line.compare(&[7], &counts).is_err());
        assert!(line("| none |", "").numbers(text).is_err());
    }
}
