//! Takes wasmtime's own tests out of its package, and makes each config in them one of ours.
//!
//! No copy of them lies here: they are those of the version that is built, under its licence. Each edit must be possible as often as it is
//! written here, so that a new version with other tests is noticed.

use std::path::{Path, PathBuf};
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
    let from = published::folder(Path::new("."), "wasmtime").expect("it is a dependency").join("tests");
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
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
