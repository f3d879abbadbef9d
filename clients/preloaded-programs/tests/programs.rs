//! The servers answer under the library as they should.

use preloaded_programs::{Setup, clean, library, loads, not_run};
use std::path::Path;
use std::process::Command;

#[test]
fn servers_answer_under_the_library_as_they_should() {
    let library = library().unwrap();
    for load in loads::servers().iter().filter(|load| load.is_there()) {
        for setup in Setup::of_suites(&library) {
            let cost = load.run(&setup);
            let cost = cost.unwrap_or_else(|error| panic!("{}, {}: {error:#}", load.name, setup.name));
            println!("{}, {}: {:.2} s of CPU, {:.0} MiB", load.name, setup.name, cost.cpu_s, cost.peak_mib);
        }
    }
    check_that_it_is_there(&library);
    clean();
}

/// Checks that the library reaches a program: it prints a line of counts at the exit.
fn check_that_it_is_there(library: &Path) {
    let mut node = Command::new("node");
    node.args(["-e", "Buffer.alloc(1 << 24)"]).env("LD_PRELOAD", library).env("VMALLOC_STATS", "1");
    match node.output() {
        Ok(output) => assert!(String::from_utf8_lossy(&output.stderr).contains("vmalloc"), "{output:?}"),
        Err(error) => not_run("node", error),
    }
}
