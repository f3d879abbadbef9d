//! An overflow traps, on stacks of ours as on those of the libraries.

use corosensei::{Coroutine, Yielder};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use vmalloc_stacks::{Stacks, StacksOptions, report_overflows};

const CHILD: &str = "COROUTINES_OVERFLOW";

/// Recurses without end.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + frame[7] }
}

#[test]
fn an_overflow_of_a_coroutine_ends_the_program_with_a_report() {
    if std::env::var_os(CHILD).is_some() {
        report_overflows().unwrap();
        let stacks = Stacks::open(&StacksOptions::new().stack_bytes(64 << 10).name("coroutines")).unwrap();
        let below = stacks.stack().unwrap();
        let mut coroutine =
            Coroutine::with_stack(stacks.stack().unwrap(), |_: &Yielder<(), ()>, ()| recurse(0));
        coroutine.resume(());
        drop(below);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "an_overflow_of_a_coroutine_ends_the_program_with_a_report", "--nocapture"]);
    let output = child.env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{text}");
    assert!(text.contains("stack overflow at") && text.contains("pool `coroutines`"), "{text}");
}

#[test]
fn an_overflow_of_a_generator_is_reported_by_its_library() {
    coroutines::prepare_generator();
    let mut child = Command::new(coroutines::build_pair(true));
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"overflow\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "reported: true", "{output:?}");
}
