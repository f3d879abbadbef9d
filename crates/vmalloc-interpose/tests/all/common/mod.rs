//! The library, and this test program run again under it.

pub(crate) mod held_fork;

use std::any::type_name;
use std::path::PathBuf;
use std::process::Output;
use vmalloc_harness::{OwnProcess, dynamic_library};

/// Returns the library.
pub(crate) fn library() -> PathBuf {
    dynamic_library("vmalloc-interpose", "libvmalloc_mmap.so")
}

/// Runs one ignored test of this program again, under the library, with these variables.
#[track_caller]
pub(crate) fn again<F: Fn()>(_: F, variables: &[(&str, &str)]) -> Output {
    let (_, test) = type_name::<F>().split_once("::").expect("a function has a path");
    let own = OwnProcess::of(test).expect("the tests that run here run no others");
    let own = variables.iter().fold(own, |own, (name, value)| own.env(name, value));
    let output = own.env("LD_PRELOAD", library()).output();
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
    let seed = vmalloc_harness::env::seed(20_261_125);
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
