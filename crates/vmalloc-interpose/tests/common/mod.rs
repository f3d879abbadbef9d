//! The library, and this test program run again under it.
#![allow(dead_code)]

pub(crate) mod held_fork;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Returns the library, after cargo has built it with the settings of tests.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of the build");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "vmalloc-interpose", "--profile", "test", "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo runs").success(), "the library can't be built");
        target.join("debug/libvmalloc_mmap.so")
    })
}

/// Runs one ignored test of this program again, under the library, with these variables.
#[track_caller]
pub(crate) fn again(test: &str, variables: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("LD_PRELOAD", library()).envs(variables.iter().copied());
    let output = command.output().expect("this program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    println!("{}", said.lines().filter(|line| line.contains(": ")).collect::<Vec<_>>().join("\n"));
    assert!(output.status.success(), "{test} with {variables:?}: {:?}\n{said}\n{complaint}", output.status);
    assert!(said.contains("1 passed"), "{test} was not run: {said}");
    output
}

/// Returns the number in a variable of the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seed of this run, which `VMALLOC_SEED` chooses.
pub(crate) fn seed() -> u64 {
    let seed = number("VMALLOC_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("VMALLOC_SEED={seed}");
    seed
}

/// Returns the reservation of the library: its first address and its size. Both are 0 before the
/// first mapping was served.
pub(crate) fn reservation() -> (usize, usize) {
    // SAFETY: a name that ends in a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"vmalloc_mmap_reservation".as_ptr()) };
    assert!(!found.is_null(), "this runs under the library");
    // SAFETY: the function of this name has this type.
    let call: unsafe extern "C" fn(*mut usize) -> usize = unsafe { std::mem::transmute(found) };
    let mut bytes = 0;
    // SAFETY: room for the size.
    (unsafe { call(&raw mut bytes) }, bytes)
}
