//! Takes wasmer's own tests of memories out of its package, and makes each store in them one of ours.
//!
//! No copy of them lies here: they are those of the version that is built, under its licence. Each edit must be possible as often as it is
//! written here, so that a new version with other tests is noticed.

use std::path::{Path, PathBuf};
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
    let from = published::folder(Path::new("."), "wasmer").expect("it is a dependency").join("tests");
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
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
