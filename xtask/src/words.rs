//! The words behind a chore on the command line.

use anyhow::{Context, Result, bail};
use pico_args::Arguments;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;

/// What a chore was given.
pub(crate) struct Words {
    options: Arguments,
    behind: Vec<String>,
}

impl Words {
    /// Parts the words at the first `--`.
    pub(crate) fn new(mut words: Vec<OsString>) -> Self {
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let behind = words.split_off(end).into_iter().skip(1);
        let behind = behind.map(|word| word.to_string_lossy().into_owned()).collect();
        Self { options: Arguments::from_vec(words), behind }
    }

    /// Returns true if an option without a value was given.
    pub(crate) fn has(&mut self, option: &'static str) -> bool {
        self.options.contains(option)
    }

    /// Returns the value of an option, or `default`.
    pub(crate) fn value<T>(&mut self, option: &'static str, default: T) -> Result<T>
    where
        T: FromStr<Err: Display>,
    {
        Ok(self.maybe(option)?.unwrap_or(default))
    }

    /// Returns the value of an option, if it was given.
    pub(crate) fn maybe<T: FromStr<Err: Display>>(&mut self, option: &'static str) -> Result<Option<T>> {
        self.options.opt_value_from_str(option).with_context(|| option)
    }

    /// Returns the words behind `--`.
    pub(crate) fn behind(&mut self) -> Vec<String> {
        std::mem::take(&mut self.behind)
    }

    /// Returns the words that are left, none of which is an option.
    pub(crate) fn rest(self) -> Result<Vec<String>> {
        let words = self.options.finish().into_iter().chain(self.behind.into_iter().map(OsString::from));
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        match words.iter().find(|word| word.starts_with('-')) {
            Some(unknown) => bail!("{unknown} is no option of this chore: --help tells them"),
            None => Ok(words),
        }
    }

    /// Makes sure that no word is left.
    pub(crate) fn end(self) -> Result<()> {
        match &self.rest()?[..] {
            [] => Ok(()),
            words => bail!("nothing is known of {}: --help tells what is", words.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        Words::new(text.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_and_words_are_parted() {
        let mut given = words("one --loops 7 --quick two -- --exact");
        assert!(given.has("--quick") && !given.has("--all"));
        assert_eq!((given.value("--loops", 1).ok(), given.value("--limit", 90).ok()), (Some(7), Some(90)));
        assert_eq!(given.behind(), ["--exact"]);
        assert_eq!(given.rest().ok(), Some(vec!["one".to_owned(), "two".to_owned()]));
        assert!(words("--unknown").rest().is_err() && words("one").end().is_err() && words("").end().is_ok());
        assert!(words("--loops many").value("--loops", 1).is_err());
    }
}
