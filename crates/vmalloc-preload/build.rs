//! Links the unwinder into the library, where the compiler has it as an archive: else the dynamic
//! linker would load `libgcc_s.so.1` into every program, at a fifth of the cost of its start. Once
//! the library is loaded it stays: its handlers of forks, and its thread, have no other end.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let asked = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    // Without the archive the compiler answers with the bare name.
    if asked.is_ok_and(|answer| answer.stdout.starts_with(b"/")) {
        println!("cargo:rustc-link-lib=dylib:+verbatim=libgcc_eh.a");
    }
}
