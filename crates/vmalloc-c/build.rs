//! Names the shared library for the linker: programs ask for `libvmalloc.so.0`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libvmalloc.so.0");
}
