//! Programs that have another malloc as well: linked, opened later, preloaded before or after. It
//! found lost contents: tcmalloc and mimalloc export `__libc_malloc` and its family.

use crate::common::{
    compiled_before, done, library, plugin, program, program_at_fixed_addresses, program_linked_to, run,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use vmalloc_harness::not_run;

/// The files of other mallocs, and the packages of Debian that have them.
const OTHERS: [(&str, &str); 4] = [
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libtcmalloc.so.4", "libgoogle-perftools4"),
    ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ("libmimalloc.so.2", "libmimalloc2.0"),
];

/// The least threshold and the default, and a start with the first block and a later one.
const SETTINGS: [[(&str, &str); 2]; 3] = [
    [("VMALLOC_THRESHOLD", "4096"), ("VMALLOC_START", "0")],
    [("VMALLOC_THRESHOLD", "32K"), ("VMALLOC_START", "0")],
    [("VMALLOC_THRESHOLD", "32K"), ("VMALLOC_START", "1M")],
];

/// Calls `test` for each other malloc that is installed.
fn with_each(name: &str, test: impl Fn(&Path)) {
    for (file, package) in OTHERS {
        let known = Command::new("ldconfig").arg("-p").output();
        let known =
            known.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let line = known.lines().find(|line| line.split_whitespace().next() == Some(file));
        match line.and_then(|line| line.split_once("=> ")) {
            Some((_, path)) => test(Path::new(path)),
            None => not_run(format_args!("{name}: {file}"), format_args!("{package} is not installed")),
        }
    }
}

/// Runs a program with preloaded libraries, which may be none of ours.
fn run_with(program: &Path, words: &[&str], preloaded: &[&Path]) -> Vec<String> {
    let preloaded: Vec<_> = preloaded.iter().map(|path| path.to_str().unwrap()).collect();
    let (preloaded, mut counts) = (preloaded.join(":"), Vec::new());
    for [threshold, start] in SETTINGS {
        // jemalloc has more static TLS than glibc leaves to what is opened later.
        let more_tls = ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=20000");
        let preloaded = ("LD_PRELOAD", preloaded.as_str());
        let settings = [threshold, start, more_tls, preloaded, ("VMALLOC_STATS", "1")];
        counts.push(done(&run(program, words, &settings)));
    }
    counts
}

fn serves(counts: &[String]) -> bool {
    counts.iter().all(|line| line.contains(" large calls; ") && !line.contains(" 0 large calls"))
}

fn leaves_all(counts: &[String]) -> bool {
    counts.iter().all(|line| line.contains("none of malloc came here"))
}

#[test]
fn a_program_that_is_linked_to_another_malloc_keeps_its_contents() {
    if compiled_before().is_some() {
        return not_run(
            "a_program_that_is_linked_to_another_malloc_keeps_its_contents",
            "there is no compiler",
        );
    }
    with_each("a_program_that_is_linked_to_another_malloc_keeps_its_contents", |other| {
        let program = program_linked_to("mallocs.c", other);
        let counts = run_with(&program, &[], &[&library()]);
        assert!(serves(&counts), "{}: {counts:?}", other.display());
    });
}

#[test]
fn a_program_that_opens_another_malloc_later_keeps_its_contents() {
    with_each("a_program_that_opens_another_malloc_later_keeps_its_contents", |other| {
        let counts = run_with(&program("mallocs.c"), &[other.to_str().unwrap()], &[&library()]);
        assert!(serves(&counts), "{}: {counts:?}", other.display());
    });
}

#[test]
fn a_malloc_that_is_preloaded_after_this_one_gets_nothing() {
    with_each("a_malloc_that_is_preloaded_after_this_one_gets_nothing", |other| {
        let counts = run_with(&program("mallocs.c"), &[], &[&library(), other]);
        assert!(serves(&counts), "{}: {counts:?}", other.display());
    });
}

/// jemalloc and tcmalloc have no `reallocarray`: the one of this library has to call theirs.
#[test]
fn a_malloc_that_is_preloaded_before_this_one_has_all_blocks() {
    with_each("a_malloc_that_is_preloaded_before_this_one_has_all_blocks", |other| {
        let counts = run_with(&program("mallocs.c"), &[], &[other, &library()]);
        assert!(leaves_all(&counts), "{}: {counts:?}", other.display());
    });
}

/// There a function of the C library of which the program takes the address has that in the
/// program. It got no memory at all.
#[test]
fn a_program_at_fixed_addresses_that_takes_those_of_the_c_library_is_served() {
    const NAME: &str = "a_program_at_fixed_addresses_that_takes_those_of_the_c_library_is_served";
    if compiled_before().is_some() {
        return not_run(NAME, "there is no compiler");
    }
    let counts = run_with(&program_at_fixed_addresses("mallocs.c"), &[], &[&library()]);
    assert!(serves(&counts), "{counts:?}");
}

/// As tools that count what a program allocates do. They call the next library's functions.
#[test]
fn a_library_that_counts_calls_of_malloc_may_stand_before_this_one() {
    let counter: PathBuf = plugin("counter.c");
    let counts = run_with(&program("mallocs.c"), &[], &[&counter, &library()]);
    assert!(serves(&counts), "{counts:?}");
}

/// It ended by a signal, each time: its collector is linked to tcmalloc.
#[test]
fn prolog_runs() {
    const NAME: &str = "prolog_runs";
    if !vmalloc_harness::is_installed("swipl", NAME) {
        return;
    }
    let goal = "numlist(1,300000,L),sum_list(L,S),print(S),nl,print(done),nl";
    for settings in SETTINGS {
        let output = run(Path::new("swipl"), &["-q", "-g", goal, "-t", "halt"], &settings);
        assert_eq!(done(&output), "");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("45000150000\n"));
    }
}
