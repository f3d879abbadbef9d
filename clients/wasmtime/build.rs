//! Takes wasmtime's own tests out of its package, and makes each config in them one of ours.
//!
//! No copy of them lies here: they are those of the version that is built, under its licence. Each edit must be possible as often as it is
//! written here, so that a new version with other tests is noticed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const OURS: &str =
    "vmalloc_client_wasmtime::install(&mut config).unwrap(); let engine = Engine::new(&config)";
const DEFAULT: &str = "let engine = { let mut config = Config::new(); vmalloc_client_wasmtime::install(&mut config).unwrap(); \
                       Engine::new(&config).unwrap() }";

/// A test of wasmtime, and how often each text is replaced.
const TESTS: &[(&str, &[(&str, &str, usize)])] = &[
    (
        "custom_signal_handler.rs",
        &[("#![cfg(", "// #![cfg(", 3), ("    Engine::new(&config).unwrap()\n", MAKE, 1)],
    ),
    ("engine_across_forks.rs", &[("let engine = Engine::new(&config)", OURS, 2)]),
    (
        "host_segfault.rs",
        &[
            ("let engine = Engine::default()", DEFAULT, 4),
            ("let engine = Engine::new(&config)", OURS, 2),
            ("wasmtime_test_util::cargo_test_runner().is_some()", "false", 1),
        ],
    ),
];

const MAKE: &str =
    "    vmalloc_client_wasmtime::install(&mut config).unwrap();\n    Engine::new(&config).unwrap()\n";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_native_signals, asan)");
    println!("cargo::rustc-cfg=has_native_signals");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let (from, to) =
        (package("wasmtime").join("tests"), PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")));
    for (name, edits) in TESTS {
        let text = fs::read_to_string(from.join(name)).expect("the package has its tests");
        let text = edits.iter().fold(text, |text, edit| edited(name, &text, edit));
        fs::write(to.join(name), text).expect("cargo made the folder");
    }
}

fn edited(name: &str, text: &str, (old, new, count): &(&str, &str, usize)) -> String {
    assert_eq!(text.matches(old).count(), *count, "{name}: {old:?}");
    text.replace(old, new)
}

/// Returns where cargo has unpacked a package.
fn package(name: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").expect("cargo sets it");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .output()
        .expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    // Of a path that ends so there is one: versions are numbers.
    let mut paths =
        text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(Path::new);
    let is_it = |path: &&Path| {
        let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str());
        let version = folder.and_then(|folder| folder.strip_prefix(name)?.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    };
    let manifest = paths.find(is_it).expect("it is a dependency");
    manifest.parent().expect("it is a file").to_path_buf()
}
