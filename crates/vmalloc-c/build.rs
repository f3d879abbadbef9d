//! Names the shared library for the linker: programs ask for `libvmalloc.so.0`. Once it is loaded
//! it stays: its thread, and its handlers of signals and forks, have no other end.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libvmalloc.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
