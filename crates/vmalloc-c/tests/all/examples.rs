//! The examples, built by their Makefile, and run. `cargo xtask c-library` installs the library for
//! them in CI; here they get that of this build.

use crate::common::{CRATE, built, has};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Puts the libraries of this build, the header and a package below a folder of the test's own, as
/// an installation does.
fn install(prefix: &Path) {
    let (lib, include) = (prefix.join("lib"), Path::new(CRATE).join("include"));
    fs::create_dir_all(lib.join("pkgconfig")).expect("a folder can be made");
    let names = [("c.so", "libvmalloc.so"), ("c.so", "libvmalloc.so.0"), ("c.a", "libvmalloc.a")];
    for (library, name) in names {
        let _ = fs::remove_file(lib.join(name));
        symlink(built(&format!("libvmalloc_{library}")), lib.join(name)).expect("a link can be made");
    }
    let package = format!(
        "libdir={}\n\nName: vmalloc\nDescription: of this build\nVersion: 0\nCflags: -I{}\n\
         Libs: -L${{libdir}} -lvmalloc\nLibs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc\n",
        lib.display(),
        include.display()
    );
    fs::write(lib.join("pkgconfig/vmalloc.pc"), package).expect("it can be written");
}

#[test]
fn examples_build_against_an_installed_library_and_run() {
    let name = "examples_build_against_an_installed_library_and_run";
    if !has(name, "make") || !has(name, "pkg-config") {
        return;
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
    install(&prefix);
    for kind in [&["BUILD=shared"][..], &["BUILD=static", "STATIC=1"]] {
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kind[0].trim_start_matches("BUILD="));
        fs::create_dir_all(&build).expect("a folder can be made");
        let mut make = Command::new("make");
        make.current_dir(Path::new(CRATE).join("examples")).arg("--always-make");
        make.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env("CFLAGS", "-O2 -Wall -Wextra -Werror");
        make.args(&kind[1..]).arg(format!("BUILD={}", build.display())).arg("check");
        let output = make.output().expect("make can be started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        for line in [
            "hello, in the area of frame buffer",
            "freed already",
            "across the end",
            "100 threads",
            "100 ids",
        ] {
            assert!(said.contains(line), "{line:?} is not in\n{said}");
        }
    }
}
