//! Tests that need a process of their own.

use std::any::type_name;
use std::env;
use std::ffi::OsStr;
use std::process::{Command, Output};
use std::thread;

/// Names the test to which a process belongs.
const MARK: &str = "VMALLOC_OWN_PROCESS";

/// Runs `body` in a process of its own: this test binary again, with the calling test alone.
///
/// # Panics
/// When the test fails there, or no test ran there.
pub fn in_own_process<F: FnOnce()>(body: F) {
    let Some(own) = OwnProcess::of(&test_name::<F>()) else { return body() };
    own.passes();
}

/// Returns the name of the test that calls this, with its modules, as the test binary lists it.
///
/// It is the name of the thread. With one thread for all tests that is `main`; there the type of
/// the test's closure tells where it was written.
#[must_use]
pub fn test_name<F>() -> String {
    let thread = thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => {
            let path = type_name::<F>();
            let path = path.split("::{{closure}}").next().unwrap_or(path);
            path.split_once("::").map_or(path, |(_crate, path)| path).to_owned()
        }
    }
}

/// A process that a test starts for itself alone.
#[derive(Debug)]
pub struct OwnProcess {
    test: String,
    command: Command,
}

impl OwnProcess {
    /// Returns the process of the test of this name; `None` in that process.
    ///
    /// # Panics
    /// When this program has no path.
    #[must_use]
    pub fn of(test: &str) -> Option<Self> {
        if env::var_os(MARK).is_some() {
            return None;
        }
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args(["--exact", "--include-ignored", "--nocapture", "--test-threads=1", test]);
        command.env(MARK, test);
        Some(Self { test: test.to_owned(), command })
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end, whatever that is.
    ///
    /// # Panics
    /// When it can't be started, or has no test of that name.
    #[must_use]
    pub fn output(mut self) -> Output {
        let output = self.command.output().unwrap_or_else(|error| panic!("{}: {error}", self.test));
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("running 1 test\n"), "there is no test {:?}: {told}", self.test);
        output
    }

    /// Runs it, and asserts that its test passes.
    ///
    /// # Panics
    /// When it does not.
    pub fn passes(self) {
        let test = self.test.clone();
        let output = self.output();
        let (told, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let passed = output.status.success() && told.contains("test result: ok. 1 passed");
        assert!(passed, "{test}: {}\n{told}\n{errors}", output.status);
    }
}
