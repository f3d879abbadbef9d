//! Wrong pointers: one line that says what is wrong, and the end of the program, as in glibc.

use crate::common::{done, program, run};
use std::os::unix::process::ExitStatusExt;

const ABORTED: Option<i32> = Some(libc::SIGABRT);

#[test]
fn wrong_pointers_are_told_in_one_line_and_abort() {
    let misuse = program("misuse.c");
    let cases = [
        ("interior", "is inside the area"),
        ("unaligned", "no block starts there"),
        ("double", "freed already"),
        ("double-large", "freed already"),
        ("realloc-freed", "is in no area"),
        ("realloc-interior", "is inside the area"),
        ("realloc-small-interior", "no block starts there"),
    ];
    for (case, text) in cases {
        let output = run(&misuse, &[case], &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), ABORTED, "{case}: {said}");
        assert!(said.contains(text) && said.lines().count() == 1, "{case}: {said}");
    }
}

#[test]
fn a_foreign_pointer_is_a_matter_of_glibc() {
    let output = run(&program("misuse.c"), &["foreign"], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), ABORTED);
    assert!(said.contains("free(): invalid"), "{said}");
}

#[test]
fn a_program_may_go_on_after_a_wrong_pointer() {
    let misuse = program("misuse.c");
    for case in ["interior", "unaligned", "double", "realloc-freed"] {
        let said = done(&run(&misuse, &[case], &[("VMALLOC_ABORT", "0")]));
        assert_eq!(said.lines().count(), 1, "{case}: {said}");
    }
}

#[test]
fn freed_memory_and_guards_trap_if_that_is_asked_for() {
    let misuse = program("misuse.c");
    for (case, setting) in [("touch", "VMALLOC_TRAP"), ("overrun", "VMALLOC_GUARDS")] {
        let output = run(&misuse, &[case], &[(setting, "1")]);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{case}");
    }
    done(&run(&misuse, &["touch"], &[]));
}

/// Such a free is put off, and judged after the fork.
#[test]
fn wrong_pointers_alter_nothing_while_a_thread_forks() {
    let settings = [("VMALLOC_ABORT", "0")];
    let complaint = done(&run(&program("astray.c"), &["300"], &settings));
    assert!(complaint.contains("is inside the area"), "{complaint:.500}");
}
