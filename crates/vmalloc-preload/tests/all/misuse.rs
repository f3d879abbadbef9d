//! Wrong pointers: one line that says what is wrong, and the end of the program, as in glibc.

use crate::common::{done, program, run};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

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

/// Blocks of all sizes, from the first one on: each ends with its page, and the report names it.
#[test]
fn debugging_reports_which_block_was_meant_and_who_freed_it() {
    let mistakes = program("mistakes.c");
    for bytes in ["1", "100", "4096", "6000", "70000", "5000000"] {
        let run = |case| {
            let output = run(&mistakes, &[case, bytes], &[("VMALLOC_DEBUG", "1")]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.signal(), said)
        };
        let block = format!("\"block of {bytes} bytes\"");
        for (case, text) in [
            ("overrun", "bytes behind the end of the area in use"),
            ("write", "that thread "),
            ("moved", "that thread "),
            ("read", "that thread "),
        ] {
            let (signal, said) = run(case);
            assert_eq!(signal, Some(libc::SIGSEGV), "{case} of {bytes}: {said}");
            assert!(said.contains(text) && said.contains(&block), "{case} of {bytes}: {said}");
            assert_eq!(said.lines().count(), 1, "{case} of {bytes}: {said}");
        }
        for (case, text) in [("twice", "that thread "), ("inside", "no block starts there")] {
            let (signal, said) = run(case);
            assert_eq!(signal, ABORTED, "{case} of {bytes}: {said}");
            assert!(said.contains(text), "{case} of {bytes}: {said}");
        }
        let (signal, said) = run("none");
        assert_eq!((signal, said.as_str()), (None, ""), "{bytes}");
    }
}

#[test]
fn programs_of_others_run_while_debugging() {
    for (program, words) in [
        (
            "python3",
            &["-c", "import json; print(len(json.dumps([str(i) for i in range(20000)]))); print('done')"],
        ),
        ("sh", &["-c", "seq 3000 | sort -n | tail -n 1; echo done"]),
    ] {
        if vmalloc_harness::is_installed(program, format_args!("{program} while debugging")) {
            assert_eq!(done(&run(Path::new(program), words, &[("VMALLOC_DEBUG", "1")])), "");
        }
    }
}

/// Such a free is put off, and judged after the fork.
#[test]
fn wrong_pointers_alter_nothing_while_a_thread_forks() {
    let settings = [("VMALLOC_ABORT", "0")];
    let complaint = done(&run(&program("astray.c"), &["300"], &settings));
    assert!(complaint.contains("is inside the area"), "{complaint:.500}");
}
