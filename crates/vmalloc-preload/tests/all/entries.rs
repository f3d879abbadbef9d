//! Each entry point, with the library and without it: a program of ours can't tell them apart.

use crate::common::{done, library, plugin, program, program_linked_to, run};
use std::process::Command;
use vmalloc_harness::not_run;

/// The thresholds that programs run at: the least, and the default.
const THRESHOLDS: [&str; 2] = ["4096", "32K"];

#[test]
fn entries_answer_as_glibc_does() {
    let entries = program("entries.c");
    let without = Command::new(&entries).output().unwrap();
    assert_eq!(done(&without), "", "the program is right about glibc");
    for threshold in THRESHOLDS {
        let output = run(&entries, &[], &[("VMALLOC_THRESHOLD", threshold), ("VMALLOC_STATS", "1")]);
        let stats = done(&output);
        assert!(stats.starts_with("vmalloc: ") && stats.contains("purges"), "{stats:?}");
    }
}

#[test]
fn entries_hold_with_every_kind_of_setting() {
    let entries = program("entries.c");
    for setting in ["GUARDS", "TRAP", "THREAD", "DEBUG"] {
        done(&run(&entries, &[], &[(&format!("VMALLOC_{setting}"), "1")]));
    }
    for (name, value) in [("BUDGET", "0"), ("DECAY", "1"), ("RESERVE", "256M"), ("START", "1T")] {
        done(&run(&entries, &[], &[(&format!("VMALLOC_{name}"), value)]));
    }
}

#[test]
fn operators_of_cpp_stand_on_it() {
    let operators = program("operators.cpp");
    for threshold in THRESHOLDS {
        done(&run(&operators, &[], &[("VMALLOC_THRESHOLD", threshold)]));
    }
}

#[test]
fn malloc_works_in_constructors_handlers_of_signals_and_exits_of_threads() {
    let places = program("places.c");
    for (start, threshold) in [("0", "4096"), ("0", "32K"), ("1M", "32K")] {
        done(&run(&places, &[], &[("VMALLOC_START", start), ("VMALLOC_THRESHOLD", threshold)]));
    }
}

/// The constructor holds the lock of the dynamic loader, and waits for the thread.
#[test]
fn a_thread_of_a_constructor_inside_dlopen_may_make_the_first_large_call() {
    let plugin = plugin("plugin.c");
    done(&run(&program("loader.c"), &["plugin", plugin.to_str().unwrap()], &[]));
}

/// A thread that blocks SIGSYS is ended by the call that the filter traps.
#[test]
fn a_call_that_a_filter_traps_may_be_refused_by_the_program() {
    let filter = program("filter.c");
    for thread in ["0", "1"] {
        done(&run(&filter, &[], &[("VMALLOC_THREAD", thread)]));
    }
}

#[test]
fn an_error_of_the_dynamic_loader_outlives_the_first_large_call() {
    done(&run(&program("loader.c"), &["error"], &[]));
}

#[test]
fn the_library_stays_when_a_program_opens_and_closes_it() {
    let library = library();
    let settings = [("LD_PRELOAD", ""), ("VMALLOC_THREAD", "1")];
    done(&run(&program("loader.c"), &["reopen", library.to_str().unwrap()], &settings));
}

#[test]
fn a_program_that_is_linked_to_another_malloc_gets_none_of_it() {
    let entries = program_linked_to("entries.c", &plugin("rival.c"));
    assert!(!Command::new(&entries).output().unwrap().status.success(), "the other one aborts");
    done(&run(&entries, &[], &[]));
}

#[test]
fn three_hundred_processes_start() {
    let places = program("limits.c");
    for nth in 0..300 {
        let start = if nth % 2 == 0 { "0" } else { "1M" };
        done(&run(&places, &["start"], &[("VMALLOC_START", start)]));
    }
}

#[test]
fn the_library_needs_little_static_tls_and_shows_only_what_it_replaces() {
    let headers = Command::new("readelf").args(["-lW", "--dyn-syms"]).arg(library()).output();
    let Ok(headers) = headers else {
        let what = "the_library_needs_little_static_tls_and_shows_only_what_it_replaces";
        return not_run(what, "readelf is not installed");
    };
    let text = String::from_utf8_lossy(&headers.stdout).into_owned();
    let tls = text.lines().find(|line| line.trim_start().starts_with("TLS")).expect("a TLS segment");
    let size = tls.split_whitespace().nth(5).and_then(|size| size.strip_prefix("0x"));
    let size = size.and_then(|size| u64::from_str_radix(size, 16).ok()).expect("a size");
    assert!(size <= 256, "{size} bytes of static TLS");
    let shown = text.lines().filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "));
    let shown: Vec<_> = shown.filter_map(|line| line.split_whitespace().last()).collect();
    assert!(shown.contains(&"malloc") && shown.len() == 20, "{shown:?}");
    for name in ["__rseq_offset", "__rseq_size", "__libc_single_threaded"] {
        let line = text.lines().find(|line| line.contains(name)).expect("a reference");
        assert!(line.contains(" WEAK "), "it is null where the C library has none: {line}");
    }
}
