//! Why a command could not do its work, in one line, and the exit codes.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// All went well.
    Success,
    /// A test failed, or the space was not whole after the tests.
    Failed,
    /// The command line or the machine did not allow the command.
    Usage,
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
pub(crate) struct Failure(String);

impl Failure {
    /// A failure that says `line`.
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
