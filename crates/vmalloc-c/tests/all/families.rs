//! Programs in C and C++, one for each family of calls: as they are, with the compiler's
//! sanitizers, and under valgrind.

use crate::common::{compile, run, succeeded};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use vmalloc_harness::{is_installed, not_run};

/// Builds and runs a program: plain, and with the sanitizers of addresses and undefined behaviour.
fn program(source: &str) {
    let plain = compile(source, source, &[]).unwrap_or_else(|error| panic!("{source}: {error}"));
    succeeded(source, &run(&[], &plain));
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    match compile(source, &format!("{source}-sanitized"), &options) {
        Ok(sanitized) => succeeded(&format!("{source}, sanitized"), &run(&[], &sanitized)),
        Err(error) => not_run(format_args!("{source} with sanitizers"), first_line(&error)),
    }
}

/// Runs a program under valgrind: no error of memory, and nothing lost.
fn checked(source: &str) {
    if !is_installed("valgrind", format_args!("{source} under valgrind")) {
        return;
    }
    let plain = compile(source, &format!("{source}-checked"), &[]).unwrap_or_else(|error| panic!("{error}"));
    let under = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    succeeded(&format!("{source} under valgrind"), &run(&under, &plain));
}

fn first_line(error: &str) -> &str {
    error.lines().next().unwrap_or("no reason is given")
}

macro_rules! programs {
    ($($name:ident: $source:literal,)*) => {
        $(#[test]
        fn $name() {
            program($source);
        })*
    };
}

programs! {
    areas_are_made_found_resized_and_freed: "areas.c",
    every_call_answers_to_wrong_input: "misuse.c",
    memory_is_committed_at_chosen_addresses: "commit.c",
    calls_for_signal_handlers_leave_errno_alone: "errno.c",
    frames_are_shown_at_several_addresses: "frames.c",
    subspaces_have_limits_and_notifiers_make_room: "subspaces.c",
    slots_are_zero_when_handed_out: "slots.c",
    threads_run_on_guarded_stacks: "stacks.c",
    the_address_map_works_without_a_heap: "map.c",
    threads_hand_over_and_fork: "threads.c",
    the_header_serves_cpp: "owners.cpp",
}

/// Random programs over the whole header, with the sanitizers. `VMALLOC_SECONDS=…` sets their time.
#[test]
fn random_programs_hold_under_sanitizers() {
    let options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    match compile("stress.c", "stress-sanitized", &options) {
        Ok(sanitized) => succeeded("stress.c, sanitized", &run(&[], &sanitized)),
        Err(error) => {
            not_run("stress.c with sanitizers", first_line(&error));
            let plain =
                compile("stress.c", "stress", &[]).unwrap_or_else(|error| panic!("stress.c: {error}"));
            succeeded("stress.c", &run(&[], &plain));
        }
    }
}

#[test]
fn valgrind_finds_nothing_in_areas() {
    checked("misuse.c");
}

#[test]
fn valgrind_finds_nothing_in_slots() {
    checked("slots.c");
}

#[test]
fn valgrind_finds_nothing_in_the_address_map() {
    checked("map.c");
}

/// The sanitizer does not see the library's own atomics: without its word on each call, memory that
/// goes from thread to thread looks like a race.
#[test]
fn thread_sanitizer_finds_no_race_where_memory_changes_threads() {
    threaded("threads.c", |output| succeeded("threads.c under the thread sanitizer", output));
}

/// The order of calls is not an order of all that a program does.
#[test]
fn thread_sanitizer_finds_a_race_in_an_area() {
    threaded("race.c", |output| {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("data race"), "{}: {said}", output.status);
    });
}

/// Runs a program with the sanitizer of threads, and hands over what became of it.
fn threaded(source: &str, check: impl FnOnce(&Output)) {
    let what = format_args!("{source} under the thread sanitizer").to_string();
    let program = match compile(source, &format!("{source}-threaded"), &["-fsanitize=thread"]) {
        Ok(program) => program,
        Err(error) => return not_run(what, first_line(&error)),
    };
    // Its shadow has a fixed place, where a random one of the program's may be.
    if is_installed("setarch", &what) {
        check(&run(&["env", "TSAN_OPTIONS=die_after_fork=0", "setarch", "--addr-no-randomize"], &program));
    }
}

/// A debugger stops in a program, whose threads it holds meanwhile, and lets it go on.
#[test]
fn gdb_stops_and_continues_a_program() {
    if !is_installed("gdb", "slots.c under gdb") {
        return;
    }
    let program = compile("slots.c", "slots.c-debugged", &[]).unwrap_or_else(|error| panic!("{error}"));
    let script = ["tbreak vmalloc_close", "run", "backtrace", "info threads", "continue"];
    let mut under = vec!["gdb", "--batch", "--nx", "-ex", "set breakpoint pending on"];
    script.iter().for_each(|line| under.extend(["-ex", line]));
    let output = run(&under, &program);
    let said = String::from_utf8_lossy(&output.stdout);
    let stopped = said.contains("vmalloc_close") && said.contains("in main");
    assert!(stopped && said.contains("exited normally"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// It found a thread that slept in code which was there no longer, and a handler of SIGSEGV.
#[test]
fn the_library_stays_when_a_program_closes_it() {
    let options = ["-Wno-pedantic", "-Wl,--as-needed", "-ldl"];
    let program = compile("reopen.c", "reopen", &options).unwrap_or_else(|error| panic!("{error}"));
    succeeded("reopen.c", &run(&[], &program));
}

#[test]
fn an_exception_of_a_callback_ends_the_program() {
    let program = compile("thrown.cpp", "thrown", &[]).unwrap_or_else(|error| panic!("{error}"));
    let output = run(&[], &program);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
}

#[test]
fn a_watched_space_reports_a_trap() {
    let program = compile("trap.c", "trap", &[]).unwrap_or_else(|error| panic!("{error}"));
    let output = run(&[], &program);
    let said = String::from_utf8_lossy(&output.stderr);
    let signal = output.status.signal();
    assert!(signal == Some(libc::SIGSEGV) || signal == Some(libc::SIGBUS), "{output:?}");
    assert!(said.contains("freed"), "{said}");
}
