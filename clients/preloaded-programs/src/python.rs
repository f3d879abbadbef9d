//! CPython's own tests: how many ran, and which failed.

use crate::Setup;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Modules that allocate, fork, start threads or processes.
const MODULES: [&str; 34] = [
    "test_bytes",
    "test_array",
    "test_memoryview",
    "test_buffer",
    "test_zlib",
    "test_gc",
    "test_struct",
    "test_fork1",
    // It removes a folder that is called `target` where it runs: not the project's.
    "test_zipfile",
    "test_list",
    "test_dict",
    "test_set",
    "test_tuple",
    "test_str",
    "test_unicode",
    "test_io",
    "test_bz2",
    "test_lzma",
    "test_hashlib",
    "test_mmap",
    "test_re",
    "test_json",
    "test_pickle",
    "test_marshal",
    "test_thread",
    "test_threading",
    "test_subprocess",
    "test_os",
    "test_posix",
    "test_ctypes",
    "test_socket",
    "test_queue",
    "test_weakref",
    "test_tarfile",
];
/// How many of them are quick.
const QUICK: usize = 9;
/// The tests of `test_socket` that run: those of sockets between a machine and its host (vsock) wait for ever in some
/// virtual machines.
const SOCKETS: [&str; 6] = ["GeneralModule", "TCP", "UDP", "Unix", "FileObject", "Sendfile"];

/// The result of a module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcome {
    pub(super) ran: u64,
    pub(super) failed: BTreeSet<String>,
}

/// Returns the modules to run.
pub(super) fn modules(quick: bool) -> &'static [&'static str] {
    if quick { &MODULES[..QUICK] } else { &MODULES }
}

/// Returns a Python that has its own tests.
pub(super) fn find() -> Option<&'static str> {
    ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let words = ["-c", "import test.test_bytes, test.test_zlib"];
        let command = Command::new(python).args(words).stderr(Stdio::null()).status();
        command.is_ok_and(|status| status.success())
    })
}

/// Runs a module in `folder`.
pub(super) fn run(python: &str, module: &str, folder: &Path, setup: &Setup<'_>) -> Outcome {
    let mut command = setup.command("timeout");
    let test = format!("test.{module}");
    command.args(["300", python, "-m", "unittest", "-q", &test]).current_dir(folder);
    if module == "test_socket" {
        command.args(SOCKETS.iter().flat_map(|kind| ["-k", kind]));
    }
    let Ok(output) = command.output() else { return Outcome::default() };
    let text = String::from_utf8_lossy(&output.stderr);
    let mut outcome = Outcome::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Ran ") {
            outcome.ran = rest.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        }
        if line.starts_with("FAIL: ") || line.starts_with("ERROR: ") {
            outcome.failed.insert(line.to_owned());
        }
    }
    if outcome.ran == 0 {
        outcome.failed.insert(format!("{module} ended with {}", output.status));
    }
    outcome
}
