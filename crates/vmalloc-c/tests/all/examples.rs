//! The examples, built against the library that the Makefile of the crate installs, and run: by
//! their own Makefile with pkg-config, and by CMake.

use crate::common::{CRATE, built, declarations};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vmalloc_harness::{is_installed, not_run};

/// Runs a command. Returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Returns an empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// Has the Makefile install the libraries of this build below an empty folder, or uninstall them.
fn make(target: &str, words: &[String]) {
    let library = built("libvmalloc_c.so");
    let mut make = Command::new("make");
    // The library is not to be built, however old it is.
    make.arg("-C").arg(CRATE).arg(target).arg("--old-file").arg(&library).args(words);
    make.arg(format!("BUILT={}", library.parent().expect("it lies in a folder").display()));
    run(&mut make);
}

fn install(name: &str) -> PathBuf {
    let prefix = folder(name);
    make("install", &[format!("PREFIX={}", prefix.display())]);
    prefix
}

/// Returns the files below a folder, links among them.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let entry = entry.expect("it can be read");
        match entry.file_type().expect("it has a type").is_dir() {
            true => files.append(&mut files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn examples_build_against_an_installed_library_and_run() {
    let name = "examples_build_against_an_installed_library_and_run";
    if !is_installed("make", name) || !is_installed("pkg-config", name) {
        return;
    }
    run_examples(&install("prefix"));
}

/// Builds the examples with the libraries below `prefix`, and runs them.
fn run_examples(prefix: &Path) {
    for kind in [&["shared"][..], &["static", "STATIC=1"]] {
        let build = folder(&format!("{}-{}", prefix.file_name().expect("a name").to_string_lossy(), kind[0]));
        let mut make = Command::new("make");
        make.current_dir(Path::new(CRATE).join("examples"));
        make.arg(format!("PKG_CONFIG_PATH={}", prefix.join("lib/pkgconfig").display()))
            .env("CFLAGS", "-O2 -Wall -Wextra -Werror");
        make.args(&kind[1..]).arg(format!("BUILD={}", build.display())).arg("check");
        let said = run(&mut make);
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

#[test]
fn an_archive_serves_wherever_it_is_unpacked() {
    let name = "an_archive_serves_wherever_it_is_unpacked";
    if !is_installed("make", name) || !is_installed("pkg-config", name) || !is_installed("cmake", name) {
        return;
    }
    let (packed, unpacked) = (folder("packed"), folder("unpacked"));
    make("archive", &[format!("TARGET={}", packed.display()), "ARCH=here".to_owned()]);
    assert_eq!(files_below(&packed).len(), 1, "the staged files are left");
    let version = env!("CARGO_PKG_VERSION");
    let archive = packed.join(format!("vmalloc-{version}-linux-here.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&unpacked));
    let prefix = unpacked.join(format!("vmalloc-{version}-linux-here"));
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "include/vmalloc.h", "share/man/man7/vmalloc.7"] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    run_examples(&prefix);
    run_with_cmake(&prefix, "archive-cmake-build");
}

/// The file of sources has all that the Makefile reads.
#[test]
fn sources_of_a_release_know_how_to_install_themselves() {
    let name = "sources_of_a_release_know_how_to_install_themselves";
    let root = Path::new(CRATE).join("../..");
    if !is_installed("make", name) || !is_installed("git", name) {
        return;
    }
    if !root.join(".git").exists() {
        return not_run(name, "the sources are in no repository of git");
    }
    let (packed, unpacked) = (folder("sources"), folder("unpacked-sources"));
    make("dist", &[format!("TARGET={}", packed.display())]);
    let source = format!("vmalloc-{}", env!("CARGO_PKG_VERSION"));
    let archive = packed.join(format!("{source}.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&unpacked));
    // It says what it would do, and stops at a file that is not there.
    let mut make = Command::new("make");
    make.arg("-C").arg(unpacked.join(source).join("crates/vmalloc-c")).args(["-n", "install"]);
    let said = run(&mut make);
    assert!(said.contains("rustc --release --locked"), "{said}");
}

#[test]
fn cmake_finds_an_installed_library_by_its_package() {
    let name = "cmake_finds_an_installed_library_by_its_package";
    if !is_installed("make", name) || !is_installed("cmake", name) {
        return;
    }
    run_with_cmake(&install("cmake-prefix"), "cmake-build");
}

/// Builds programs with the CMake package below `prefix`, and runs them.
fn run_with_cmake(prefix: &Path, build: &str) {
    let build = folder(build);
    let define = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(Path::new(CRATE).join("tests/programs/cmake")).arg("-B").arg(&build);
    cmake.arg(define("CMAKE_PREFIX_PATH", prefix));
    cmake.arg(define("EXAMPLE", &Path::new(CRATE).join("examples/buffer.c")));
    run(&mut cmake);
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["buffer_vmalloc", "buffer_static"] {
        assert!(run(&mut Command::new(build.join(program))).contains("hello, in the area of frame buffer"));
    }
}

#[test]
fn every_function_and_every_document_has_a_page_for_man() {
    let name = "every_function_and_every_document_has_a_page_for_man";
    if !is_installed("make", name) {
        return;
    }
    let prefix = install("man-prefix");
    let pages = prefix.join("share/man");
    for function in functions() {
        let text = page(&pages, &format!("man3/{function}.3"));
        for word in [&format!(".SH NAME\n{function} \\- "), &format!("{function}("), ".SH DESCRIPTION\n"] {
            assert!(text.contains(word), "{function} has no {word:?}:\n{text}");
        }
    }
    for (name, words) in [
        (
            "man3/vmalloc_free.3",
            ["free \\- frees memory of vmalloc_alloc, vmalloc_z", ".SH REQUIRES\nThe memory is the caller's"],
        ),
        ("man7/vmalloc.7", ["vmalloc \\- vmalloc from C", "\\fBvmalloc_stacks\\fR(7)"]),
        (
            "man7/vmalloc_areas.7",
            [
                "request.align = 1 << 16;",
                ".TP\n\\fBvmalloc_alloc_shared\\fR\nended by \\fBvmalloc_free\\fR; memory that can be shown again\n",
            ],
        ),
        (
            "man7/vmalloc_errors.7",
            ["printf(\"%s\\en\", error.text);", ".TP\n\\fBEDQUOT\\fR\nthe limit of a sub-space\n"],
        ),
    ] {
        let text = page(&pages, name);
        assert!(words.iter().all(|word| text.contains(word)), "{name} lacks one of {words:?}:\n{text}");
    }
}

/// Returns the functions of the header.
fn functions() -> Vec<String> {
    let header = fs::read_to_string(Path::new(CRATE).join("include/vmalloc.h")).expect("it is there");
    declarations::functions(&header)
}

/// Returns the text of an installed page, in which nothing of the source's marks is left.
fn page(pages: &Path, name: &str) -> String {
    let text = fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(!text.contains("](") && !text.contains('`') && !text.contains("\n|"), "{name}:\n{text}");
    text
}

#[test]
fn installed_libraries_are_stripped() {
    let name = "installed_libraries_are_stripped";
    if !is_installed("make", name) || !is_installed("readelf", name) {
        return;
    }
    let libraries = install("stripped").join("lib");
    let has = |path: PathBuf, section| run(Command::new("readelf").arg("-WS").arg(path)).contains(section);
    assert!(has(built("libvmalloc_c.so"), ".symtab") && has(built("libvmalloc_c.a"), ".debug_info"));
    assert!(!has(libraries.join("libvmalloc.so"), ".symtab"));
    assert!(!has(libraries.join("libvmalloc.a"), ".debug_info"));
}

#[test]
fn uninstall_removes_what_install_put_below_the_folder_of_a_packager() {
    let name = "uninstall_removes_what_install_put_below_the_folder_of_a_packager";
    if !is_installed("make", name) {
        return;
    }
    let stage = folder("stage");
    let words = [
        format!("DESTDIR={}", stage.display()),
        "PREFIX=/usr".to_owned(),
        "LIBDIR=/usr/lib/of-a-machine".to_owned(),
    ];
    make("install", &words);
    let package =
        fs::read_to_string(stage.join("usr/lib/of-a-machine/pkgconfig/vmalloc.pc")).expect("it is there");
    assert!(package.contains("libdir=/usr/lib/of-a-machine\n") && package.contains("-lgcc_s"), "{package}");
    assert!(!package.contains('@') && !package.contains("stage"), "{package}");
    // Four libraries, the header, three packages, nine documents.
    assert_eq!(files_below(&stage).len(), 17 + functions().len());
    make("uninstall", &words);
    assert_eq!(files_below(&stage), Vec::<PathBuf>::new());
}
