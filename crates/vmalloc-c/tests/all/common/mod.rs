//! Programs in C, built against the header and the shared library of this build, and run.

#[allow(dead_code)]
pub(crate) mod declarations;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub(crate) const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a library of this build, which lies beside the test.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let path = test.parent().expect("it lies in a folder").join(name);
    assert!(path.exists(), "{} is built with the tests", path.display());
    path
}

/// Returns a folder with the library under the names that the linker and the loader ask for.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("library-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        for name in ["libvmalloc.so", "libvmalloc.so.0"] {
            let _ = fs::remove_file(folder.join(name));
            symlink(built("libvmalloc_c.so"), folder.join(name)).expect("a link can be made");
        }
        folder
    })
}

/// Builds a program of `tests/programs` with more options for the compiler. Returns its path.
pub(crate) fn compile(source: &str, name: &str, options: &[&str]) -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let (compiler, standard) =
        if source.ends_with(".cpp") { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let mut compiler = Command::new(compiler);
    compiler.arg(standard).args([
        "-D_GNU_SOURCE",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-pthread",
    ]);
    compiler.arg(Path::new(CRATE).join("tests/programs").join(source)).arg("-o").arg(&program);
    compiler.arg("-I").arg(Path::new(CRATE).join("include")).args(options);
    compiler.arg("-L").arg(library()).arg("-lvmalloc");
    let output = compiler.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Builds a program from its text. Its name is for the file.
pub(crate) fn compile_text(text: &str, name: &str) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.c", std::process::id()));
    fs::write(&source, text).map_err(|error| error.to_string())?;
    let folder = Path::new(CRATE).join("tests/programs");
    let source = source.to_string_lossy().into_owned();
    let options = ["-I".to_owned(), folder.to_string_lossy().into_owned(), "-Wno-unused-variable".to_owned()];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    compile(&source, name, &options)
}

/// Runs a program, perhaps under another, with the library at hand.
pub(crate) fn run(under: &[&str], program: &Path) -> Output {
    let mut words = under.iter().map(PathBuf::from).chain([program.to_owned()]);
    let mut command = Command::new(words.next().expect("there is a program"));
    command.args(words).env("LD_LIBRARY_PATH", library());
    command.env("ASAN_OPTIONS", "detect_leaks=1").output().expect("it can be started")
}

/// Checks that a program has ended well, and prints what it said if not.
pub(crate) fn succeeded(name: &str, output: &Output) {
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{said}{complained}", output.status);
}
