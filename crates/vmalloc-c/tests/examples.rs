//! The examples, built by their Makefile against an installed library, and run.

use std::path::Path;
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        println!("NOT RUN: {program} is not installed");
    }
    found
}

/// Installs the library as `cargo xtask c-library` does, below a folder of the test's own.
fn install(prefix: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(Path::new(CRATE).join("../.."));
    command
        .args(["run", "--quiet", "--package", "xtask", "--", "c-library", "--quick", "--prefix"])
        .arg(prefix);
    let output = command.output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn examples_build_against_the_installed_library_and_run() {
    if !has("make") || !has("pkg-config") {
        return;
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
    install(&prefix);
    for kind in [&["BUILD=shared"][..], &["BUILD=static", "STATIC=1"]] {
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kind[0].trim_start_matches("BUILD="));
        std::fs::create_dir_all(&build).expect("a folder can be made");
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
