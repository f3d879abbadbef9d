//! The programs answer under the library as they should.

use preloaded_programs::{LOADS, Setup, clean, library};
use std::path::Path;
use std::process::Command;

/// Settings to run under: as it is by default, and all blocks of a page and more from the first one on.
const RUNS: [(&str, &[(&str, &str)]); 2] =
    [("default", &[]), ("threshold 4096", &[("VMALLOC_THRESHOLD", "4096"), ("VMALLOC_START", "0")])];

#[test]
fn programs_answer_under_the_library_as_they_should() {
    let library = library().unwrap();
    for load in LOADS.iter().filter(|load| load.is_there()) {
        for (name, settings) in RUNS {
            let cost = (load.run)(&Setup { library: Some(&library), settings });
            let cost = cost.unwrap_or_else(|error| panic!("{}, {name}: {error}", load.name));
            println!("{}, {name}: {:.2} s of CPU, {:.0} MiB", load.name, cost.cpu_s, cost.peak_mib);
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
        Err(error) => println!("NOT RUN: node: {error}"),
    }
}
