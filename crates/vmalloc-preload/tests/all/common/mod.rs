//! Programs in C that run with the library.

use std::env::{var_os, vars_os};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use vmalloc_harness::dynamic_library;

/// Returns the library.
pub(crate) fn library() -> PathBuf {
    const NAME: &str = "libvmalloc_malloc.so";
    match compiled_before() {
        Some(folder) => folder.join(NAME),
        None => dynamic_library("vmalloc-preload", NAME),
    }
}

/// Returns the folder with the library and the programs where there is no compiler: `cargo xtask
/// kernels` makes it.
pub(crate) fn compiled_before() -> Option<PathBuf> {
    var_os("VMALLOC_TEST_PROGRAMS").map(PathBuf::from)
}

/// Compiles a source of `tests/programs` with these flags. Returns the path of the result.
fn compile(source: &str, result: &str, flags: &[&str]) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    // Tests run at once, and so do the test programs: each has a copy of its own.
    let name = format!("{result}-{}-{:?}", std::process::id(), std::thread::current().id());
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace(['(', ')'], ""));
    let mut compiler = Command::new(if source.ends_with(".cpp") { "c++" } else { "cc" });
    compiler.args(["-O1", "-g", "-pthread", "-fno-builtin"]).arg(from).args(flags).arg("-o").arg(&to);
    assert!(compiler.status().expect("a compiler for C").success(), "{source} can't be compiled");
    to
}

/// Compiles a program of `tests/programs`. Returns its path.
pub(crate) fn program(source: &str) -> PathBuf {
    match compiled_before() {
        Some(folder) => folder.join(source),
        None => {
            let warnings = ["-Wall", "-Wno-unused-result", "-Wno-alloc-size-larger-than"];
            compile(source, source, &[&warnings[..], &["-ldl"]].concat())
        }
    }
}

/// Compiles a library that programs load. Returns its path.
pub(crate) fn plugin(source: &str) -> PathBuf {
    match compiled_before() {
        Some(folder) => folder.join(format!("{source}.so")),
        None => compile(source, &format!("{source}.so"), &["-w", "-fPIC", "-shared"]),
    }
}

/// Compiles a program of `tests/programs`, and links it to a library.
pub(crate) fn program_linked_to(source: &str, library: &Path) -> PathBuf {
    compile(source, &format!("{source}-linked"), &["-w", "-Wl,--no-as-needed", &library.to_string_lossy()])
}

/// Compiles a program of `tests/programs` that has a fixed place among addresses.
pub(crate) fn program_at_fixed_addresses(source: &str) -> PathBuf {
    compile(source, &format!("{source}-fixed"), &["-w", "-no-pie", "-fno-pic"])
}

/// Runs a program under the library. It opens its heap with the first large request.
pub(crate) fn run(program: &Path, words: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    // What this test run itself is told by its environment is no setting of the library.
    for (name, _) in vars_os() {
        if name.to_string_lossy().starts_with("VMALLOC_") {
            command.env_remove(name);
        }
    }
    command.args(words).env("LD_PRELOAD", library()).env("VMALLOC_START", "0");
    command.envs(settings.iter().copied()).output().expect("the program starts")
}

/// Returns what a program wrote to stderr, after it has ended well.
#[track_caller]
pub(crate) fn done(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("done\n"), "{:?}: {complaint}", output.status);
    complaint
}

/// Returns the seed of this run, which `VMALLOC_SEED` chooses.
pub(crate) fn seed() -> u64 {
    let seed = vmalloc_harness::env::seed(20_261_125);
    println!("VMALLOC_SEED={seed}");
    seed
}
