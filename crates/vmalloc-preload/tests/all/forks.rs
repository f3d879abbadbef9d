//! Threads that allocate, resize and free while the program forks: contents are checked, and every
//! child goes on, with threads of its own.

use crate::common::{done, program, run, seed};

fn stress(settings: &[(&str, &str)], threads: &str, steps: &str, forks: &str) {
    let seed = seed().to_string();
    done(&run(&program("stress.c"), &[threads, steps, forks, &seed], settings));
}

#[test]
fn threads_and_forks_keep_their_contents() {
    for threshold in ["4096", "32K"] {
        stress(&[("VMALLOC_THRESHOLD", threshold)], "4", "6000", "60");
    }
}

#[test]
fn threads_and_forks_keep_their_contents_with_little_cached_and_quick_decay() {
    stress(&[("VMALLOC_BUDGET", "1M"), ("VMALLOC_DECAY", "1")], "3", "3000", "40");
    stress(&[("VMALLOC_BUDGET", "0")], "3", "1000", "20");
}

#[test]
fn threads_and_forks_keep_their_contents_with_a_drain_thread() {
    stress(&[("VMALLOC_THREAD", "1"), ("VMALLOC_BUDGET", "4M")], "3", "3000", "40");
}

#[test]
fn children_of_a_process_that_is_just_starting_go_on() {
    for _ in 0..20 {
        stress(&[("VMALLOC_START", "3M")], "3", "100", "3");
    }
}

#[test]
fn freed_memory_that_traps_survives_forks() {
    stress(&[("VMALLOC_TRAP", "1")], "2", "600", "15");
    stress(&[("VMALLOC_DEBUG", "1")], "2", "600", "15");
}

/// It found a circle: glibc's `tst-malloc-fork-deadlock` did not end. A thread that forked had the
/// heap's locks and waited for the list of open files.
#[test]
fn a_fork_keeps_nobody_waiting_who_has_a_file_locked() {
    for threshold in ["4096", "32K"] {
        done(&run(
            &program("files.c"),
            &["150"],
            &[("VMALLOC_THRESHOLD", threshold), ("VMALLOC_START", "0")],
        ));
    }
}

/// glibc takes no locks then. With locks, a fork inside of malloc_trim waited for its own thread.
#[test]
fn a_handler_of_a_signal_may_fork_whatever_it_has_interrupted() {
    let (alarms, seed) = (program("alarms.c"), seed().to_string());
    for setting in
        [("VMALLOC_DECAY", "1"), ("VMALLOC_BUDGET", "0"), ("VMALLOC_GUARDS", "1"), ("VMALLOC_TRAP", "1")]
    {
        done(&run(&alarms, &["150", &seed], &[setting]));
    }
}
