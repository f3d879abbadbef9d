//! A program in C that maps memory with a file locked, flushes all files, and forks, all at once.

use crate::common::library;
use std::path::Path;
use std::process::Command;

/// Waited in a circle for ever, when the lock was held over a fork.
#[test]
fn a_fork_keeps_nobody_waiting_who_has_a_file_locked() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/files.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mmap-files-{}", std::process::id()));
    let words = [Path::new("-O1"), Path::new("-pthread"), &source, Path::new("-o"), &program];
    assert!(Command::new("cc").args(words).status().expect("a compiler for C").success());
    for keep in ["0", "16M"] {
        let mut command = Command::new(&program);
        let output = command.arg("100").env("LD_PRELOAD", library()).env("VMALLOC_MMAP_KEEP", keep).output();
        let output = output.expect("the program starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout == b"done\n", "{:?}: {complaint}", output.status);
    }
}
