//! Published crates that use the four allocators pass their own tests with the drop-in, as with the original.
//!
//! Each is fetched from the registry, laid out in the target directory, and tested twice: as it is, and with the drop-in by
//! `[patch.crates-io]`. It is edited where it needs that to build or to be patched. Its folder in `dependents` has the locked versions, and a
//! harness where its own tests don't reach the allocator. The results of all tests and the addresses that the harnesses print are the same.

use published::{Manifest, Source, copy, named};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of this client.
fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A folder below the target directory.
fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("dependents").join(name)
}

/// Returns the command of cargo, away from this workspace.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(std::env::temp_dir());
    cargo
}

/// Returns what a command prints, its output before its errors.
fn printed(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap_or_else(|cause| panic!("{command:?}: {cause}"));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), text.concat())
}

/// Returns the folder with the source of a package, after cargo has fetched it.
fn published(package: &str) -> PathBuf {
    named(Path::new(env!("CARGO_MANIFEST_DIR")), package).unwrap_or_else(|error| panic!("{error}"))
}

/// A dependent of an allocator, laid out to be tested.
struct Dependent {
    /// Its folder in `dependents`.
    parts: PathBuf,
    folder: PathBuf,
    /// The file with the versions of what it depends on.
    lock: PathBuf,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

impl Dependent {
    /// Lays out the published source in a folder.
    fn published(package: &'static str, folder: &str) -> Self {
        let source = published(package);
        // Else cargo looks for the workspace above.
        let own = |manifest: Manifest| manifest.with("[workspace]\n");
        Self::laid_out(&source, &source, package, folder).manifest(own)
    }

    /// Lays out a package of `dependents` that has a file of a published one.
    fn with_file_of(package: &'static str, from: &Path, file: &str, to: &str) -> Self {
        let parts = ours("dependents").join(package);
        let dependent = Self::laid_out(&parts, &parts, package, package);
        std::fs::copy(from.join(file), dependent.folder.join(to)).unwrap();
        dependent
    }

    fn laid_out(source: &Path, locked: &Path, package: &str, folder: &str) -> Self {
        let (parts, folder) = (ours("dependents").join(package), built(folder));
        let _ = std::fs::remove_dir_all(&folder);
        copy(source, &folder).unwrap();
        let lock =
            [&parts, locked].map(|place| place.join("Cargo.lock")).into_iter().find(|lock| lock.exists());
        Self { parts, folder, lock: lock.expect("versions are locked"), arguments: &[], environment: &[] }
    }

    /// Edits its manifest.
    fn manifest(self, edits: impl FnOnce(Manifest) -> Manifest) -> Self {
        edits(Manifest::read(&self.folder)).write();
        self
    }

    /// Edits a file of its source.
    fn source(self, file: &str, edits: impl FnOnce(Source) -> Source) -> Self {
        Source::edit(&self.folder.join(file), edits);
        self
    }

    /// Puts a file of this repository at a path in the source.
    fn with(self, file: &str, path: &str) -> Self {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(self.parts.join(file), path).unwrap();
        self
    }

    /// Sets the arguments and the environment of its `cargo test`.
    fn tested_by(
        self,
        arguments: &'static [&'static str],
        environment: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { arguments, environment, ..self }
    }

    /// Returns cargo in its folder, with packages replaced by those in folders.
    fn cargo(&self, patches: &[(&str, PathBuf)]) -> Command {
        let mut command = cargo();
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", built("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "false").envs(self.environment.iter().copied());
        for (package, folder) in patches {
            command.arg("--config").arg(format!("patch.crates-io.{package}.path = {folder:?}"));
        }
        command
    }

    /// Runs its tests, and returns what they found.
    fn test(&self, patches: &[(&str, PathBuf)]) -> Outcome {
        // A patch changes the file.
        std::fs::copy(&self.lock, self.folder.join("Cargo.lock")).unwrap();
        for (package, folder) in patches {
            let mut command = self.cargo(patches);
            command.args(["tree", "--quiet", "--depth=0", "--invert", package]);
            let (_, tree) = printed(command.args(self.arguments.iter().filter(|it| **it != "--lib")));
            assert!(tree.contains(&*folder.to_string_lossy()), "{:?} does not use it: {tree}", self.folder);
        }
        let mut command = self.cargo(patches);
        command.arg("test").args(self.arguments).args(["--", "--show-output", "--test-threads=1"]);
        let (passed, text) = printed(&mut command);
        assert!(passed, "{command:?}: {text}");
        let outcome = Outcome::read(&text);
        let (tests, places) = (outcome.tests.len(), outcome.places.len());
        println!(
            "{:?}, {patches:?}: {tests} tests, {places} lines of places",
            self.parts.file_name().unwrap()
        );
        outcome
    }
}

/// The results of tests, and the addresses that a harness printed.
#[derive(Debug, PartialEq)]
struct Outcome {
    tests: BTreeSet<String>,
    places: Vec<String>,
}

impl Outcome {
    fn read(text: &str) -> Self {
        let lines =
            |start| text.lines().filter(move |line: &&str| line.starts_with(start)).map(str::to_owned);
        let tests: BTreeSet<_> = lines("test ").filter(|line| !line.starts_with("test result")).collect();
        assert!(tests.iter().all(|line| line.ends_with(" ... ok")), "{tests:?}");
        Self { tests, places: lines("placed ").collect() }
    }
}

/// Adds a harness to a module.
fn with_harness(source: Source) -> Source {
    source.append("#[cfg(test)]\nmod harness;\n")
}

#[test]
fn hermit_kernel_has_the_tests_and_addresses_of_the_original() {
    let kernel = Dependent::published("hermit-kernel", "hermit-kernel");
    // It is built by a nightly of March 2025. Since then the compiler wants `naked` to be marked as unsafe; the rest of it still builds.
    let naked = |source: Source| source.words_anywhere("#[naked]", "#[unsafe(naked)]", 2);
    let kernel = kernel.source("src/arch/x86_64/kernel/switch.rs", naked);
    let kernel = kernel.source("src/arch/x86_64/mm/mod.rs", with_harness);
    let kernel = kernel.with("harness.rs", "src/arch/x86_64/mm/harness.rs");
    // It uses features that are not stable.
    let kernel = kernel.tested_by(&["--lib", "--no-default-features"], &[("RUSTC_BOOTSTRAP", "1")]);
    let expected = kernel.test(&[]);
    assert_eq!((expected.tests.len(), expected.places.len()), (4, 28));
    assert_eq!(kernel.test(&[("free-list", ours("free-list"))]), expected);
}

/// Returns `rdif-pcie` with the registry's vm-allocator in place of the copy of it that it carries.
fn rdif_pcie(folder: &str) -> Dependent {
    let allocator = "[dependencies.vm-allocator]\nversion = \"0.1.4\"\ndefault-features = false\n";
    Dependent::published("rdif-pcie", folder)
        .manifest(|manifest| manifest.with(allocator))
        .source("src/lib.rs", |source| source.replace("addr_alloc", "pub use vm_allocator as addr_alloc;"))
}

#[test]
fn rdif_pcie_has_the_tests_of_the_original() {
    let published = Dependent::published("rdif-pcie", "rdif-pcie-published").test(&[]);
    assert_eq!(published.tests.len(), 37);
    let split = rdif_pcie("rdif-pcie");
    let expected = split.test(&[]);
    // The others are the tests of the copy of vm-allocator, which the drop-in has itself.
    assert_eq!(expected.tests.len(), 4);
    assert!(expected.tests.is_subset(&published.tests));
    assert_eq!(split.test(&[("vm-allocator", ours("vm-allocator"))]), expected);
}

#[test]
fn pcie_has_the_tests_and_addresses_of_the_original() {
    let split = rdif_pcie("rdif-pcie-of-pcie");
    let harness = "[[test]]\nname = \"harness\"\npath = \"tests/harness.rs\"\n";
    let bus = Dependent::published("pcie", "pcie").with("harness.rs", "tests/harness.rs");
    // Its manifest leaves the unit tests of the library out.
    let bus = bus.manifest(|manifest| manifest.set("[lib]", "test", "true").with(harness));
    let expected = bus.test(&[]);
    assert_eq!((expected.tests.len(), expected.places.len()), (9, 3_786));
    assert_eq!(bus.test(&[("rdif-pcie", split.folder), ("vm-allocator", ours("vm-allocator"))]), expected);
}

#[test]
fn axaddrspace_has_the_tests_of_the_original() {
    // Its tests use page tables of this package, which its manifest leaves out.
    let tables = "[dev-dependencies.page-table-generic]\nversion = \"0.9\"\n";
    let space = Dependent::published("axaddrspace", "axaddrspace");
    let space = space.manifest(|manifest| manifest.with(tables));
    let expected = space.test(&[]);
    assert_eq!(expected.tests.len(), 18);
    assert_eq!(space.test(&[("ax-memory-set", ours("ax-memory-set"))]), expected);
}

const MESHES: &str = "src/meshlet/persistent_buffer.rs";

#[test]
fn bevys_buffer_of_meshes_has_the_addresses_and_contents_of_the_original() {
    let (bevy, module) = (published("bevy_pbr"), "src/persistent_buffer.rs");
    let buffer = Dependent::with_file_of("meshlet-buffer", &bevy, MESHES, module);
    let buffer = buffer.source(module, with_harness);
    let buffer = buffer.with("harness.rs", "src/persistent_buffer/harness.rs");
    let expected = buffer.test(&[]);
    assert_eq!((expected.tests.len(), expected.places.len()), (1, 4_976));
    assert_eq!(buffer.test(&[("range-alloc", ours("range-alloc"))]), expected);
}
