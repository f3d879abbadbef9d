//! Takes wasmer's own tests of memories out of its package, and makes each store in them one of ours.
//!
//! No copy of them lies here: they are those of the version that is built, under its licence. Each edit must be possible as often as it is
//! written here, so that a new version with other tests is noticed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A test of wasmer, and how many stores it makes.
const TESTS: &[(&str, usize)] = &[
    ("memory.rs", 7),
    ("instance.rs", 2),
    ("externals.rs", 13),
    ("function_env.rs", 1),
    ("typed_functions.rs", 4),
];

fn main() {
    println!(
        "cargo::rustc-check-cfg=cfg(feature, values(\"sys\", \"js\", \"v8\", \"v8-default\", \"singlepass\", \"cranelift\", \"llvm\", \"wat\"))"
    );
    println!("cargo::rustc-cfg=feature=\"sys\"");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let (from, to) =
        (package("wasmer").join("tests"), PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")));
    for (name, stores) in TESTS {
        let text = fs::read_to_string(from.join(name)).expect("the package has its tests");
        assert_eq!(text.matches("Store::default()").count(), *stores, "{name}");
        // Its macro makes a test for each compiler; there is one here.
        let text = text
            .replace("use macro_wasmer_engine_test::engine_test;\n", "")
            .replace("#[engine_test]", "#[test]");
        let text = text.replace("Store::default()", "vmalloc_client_wasmer::store()");
        fs::write(to.join(name), text).expect("cargo made the folder");
    }
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
