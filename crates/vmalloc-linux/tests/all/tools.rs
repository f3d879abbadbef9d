//! A program with a space under tools that run it or watch it.

use crate::common::not_run;
use std::process::Command;
use vmalloc::SpaceOptions;
use vmalloc_linux::{LinuxOptions, open};

/// Set in the process that runs under a tool.
const UNDER_TOOL: &str = "VMALLOC_UNDER_TOOL";

/// Valgrind shows a program no vDSO. It runs the program's own code and the library's, and counts a
/// crash as an end by a signal.
#[test]
fn a_program_with_a_space_runs_under_valgrind() {
    if std::env::var_os(UNDER_TOOL).is_some() {
        return use_a_space();
    }
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9"]).arg(std::env::current_exe().unwrap());
    valgrind.args(["--exact", "--test-threads=1", "tools::a_program_with_a_space_runs_under_valgrind"]);
    match valgrind.env(UNDER_TOOL, "valgrind").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            if said.contains("Fatal error at startup") {
                return not_run("a program with a space under valgrind", "it lacks the symbols of this libc");
            }
            let passed = output.status.success() && said.contains("1 passed");
            assert!(passed, "{}: {said}", output.status);
        }
        Err(error) => not_run("a program with a space under valgrind", error),
    }
}

/// Allocates, frees and purges, with a drain thread. It shows no frames: valgrind refuses the call
/// of mremap(2) that shows them.
fn use_a_space() {
    let space = open(LinuxOptions::new(), SpaceOptions::default()).unwrap();
    for bytes in [1, 5000, 300_000, 9 << 20] {
        let mut buffer = space.zeroed_buffer(bytes).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(1);
        assert!(space.find(buffer.addr() + bytes / 2).is_some());
    }
    space.purge().unwrap();
    space.verify().unwrap();
}
