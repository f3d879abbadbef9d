//! Why a command could not do its work, in one line, and the exit codes.

use crate::program::output;
use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All went well.
    Success,
    /// A test or a replay failed, or the space was not whole afterwards.
    Failed,
    /// The command line or the machine did not allow the command.
    Usage,
}

impl Exit {
    /// Returns the end of a command that ran: all went well, or something failed.
    pub fn of(ok: bool) -> Self {
        if ok { Self::Success } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Success => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
        }
    }
}

/// Bad usage, or a machine that does not allow the command: one line for stderr.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(String, Exit);

impl Failure {
    /// A failure that says `line`, which may quote what was typed: line breaks in that are escaped.
    pub fn new(line: impl AsRef<str>) -> Self {
        let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        Self(line.as_ref().chars().map(escaped).collect(), Exit::Usage)
    }

    /// Makes it one of what was read, not of its use.
    pub fn of_input(self) -> Self {
        Self(self.0, Exit::Failed)
    }

    /// Says it in one line on stderr; with `json` also as an object on stdout, for a reader of
    /// that.
    pub fn tell(&self, json: bool) -> Exit {
        output::note(&self.0);
        if json {
            // If stdout is what failed, the line on stderr is all there is.
            let _ = output::json(&serde_json::json!({ "error": self.0 }));
        }
        self.1
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
