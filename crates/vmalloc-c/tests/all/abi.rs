//! The interface of the shared library: its symbols, its name, its static memory, and declarations
//! that programs were compiled for.

use crate::common::{CRATE, built, declarations};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use vmalloc_harness::is_installed;

fn header() -> String {
    fs::read_to_string(Path::new(CRATE).join("include/vmalloc.h")).expect("the header is there")
}

fn output_of(program: &str, words: &[&str], path: &Path) -> String {
    let output = Command::new(program).args(words).arg(path).output().expect("it can be started");
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_library_shows_the_functions_of_the_header_and_nothing_else() {
    if !is_installed("nm", "the_library_shows_the_functions_of_the_header_and_nothing_else") {
        return;
    }
    let symbols = output_of("nm", &["-D", "--defined-only"], &built("libvmalloc_c.so"));
    let shown: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    let declared: BTreeSet<String> = declarations::functions(&header()).into_iter().collect();
    assert_eq!(shown, declared);
    assert!(declared.len() > 100, "{}", declared.len());
}

#[test]
fn the_library_has_its_name_and_little_static_memory() {
    if !is_installed("readelf", "the_library_has_its_name_and_little_static_memory") {
        return;
    }
    let library = built("libvmalloc_c.so");
    let dynamic = output_of("readelf", &["-W", "-d"], &library);
    assert!(dynamic.contains("soname: [libvmalloc.so.0]"), "{dynamic}");
    let segments = output_of("readelf", &["-W", "-l"], &library);
    let sizes: Vec<u64> = segments
        .lines()
        .filter(|line| line.trim_start().starts_with("TLS "))
        .filter_map(|line| {
            u64::from_str_radix(line.split_whitespace().nth(5)?.trim_start_matches("0x"), 16).ok()
        })
        .collect();
    assert!(sizes.iter().sum::<u64>() <= 512, "thread-local memory: {sizes:?}");
    let sections = output_of("readelf", &["-W", "-S"], &library);
    let bss = sections.lines().find(|line| line.contains(" .bss ")).expect("a section");
    let size = bss.split_once(" .bss ").and_then(|(_, rest)| rest.split_whitespace().nth(3));
    let size = u64::from_str_radix(size.expect("a size"), 16).expect("a number");
    // Of it 272 KiB are the records of frees that trap, which are touched where reports are wanted,
    // and some 36 KiB the outlines of spaces, touched as far as there are spaces.
    assert!(size <= 320 << 10, "{size} bytes of static memory");
    println!("thread-local {sizes:?}, static {size} bytes");
}

#[test]
fn no_declaration_of_the_last_header_has_changed() {
    let before = fs::read_to_string(Path::new(CRATE).join("abi/declarations.txt")).expect("it is there");
    let now: BTreeSet<String> = declarations::of(&header()).into_iter().collect();
    let gone: Vec<_> = before.lines().filter(|line| !now.contains(*line)).collect();
    assert!(gone.is_empty(), "gone or changed; if that is meant: cargo xtask header --bless-abi\n{gone:#?}");
}

#[test]
fn abidiff_finds_nothing_that_programs_would_miss() {
    if !is_installed("abidiff", "abidiff_finds_nothing_that_programs_would_miss") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("stubs.c"), folder.join("libstubs.so"));
    fs::write(&source, declarations::stubs(&header())).expect("it can be written");
    let mut cc = Command::new("cc");
    cc.args(["-g", "-shared", "-fPIC", "-Wl,-soname,libvmalloc.so.0", "-I"])
        .arg(Path::new(CRATE).join("include"));
    let compiled = cc.arg(&source).arg("-o").arg(&library).output().expect("it can be started");
    assert!(compiled.status.success(), "{compiled:?}");
    let mut abidiff = Command::new("abidiff");
    abidiff.arg("--no-added-syms").arg(Path::new(CRATE).join("abi/vmalloc.abi")).arg(&library);
    let compared = abidiff.output().expect("it can be started");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}
