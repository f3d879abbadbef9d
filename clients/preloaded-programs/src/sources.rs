//! Tests that Debian's source packages carry: those of glibc's malloc, mimalloc's stress, redis's
//! and sqlite's own. They are fetched, built and run, and nothing of them becomes part of this project.

use crate::tools::{self, succeeds};
use crate::{Setup, kept};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program or script, with the folder that it runs in.
pub(super) struct Test {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) words: Vec<String>,
}

/// Tests of glibc's malloc that ask for its insides: that it finds records which the test has
/// overwritten, or that its statistics change. Large blocks have no such records.
const OF_ITS_INSIDES: [&str; 2] = ["tst-malloc-backtrace", "tst-safe-linking"];
/// Tests that run into their own time limit here, with glibc alone as well.
const TOO_LONG: [&str; 1] = ["tst-mallocfork2"];

/// What the support code of glibc's tests is told about the places of things.
const PLACES: [(&str, &str); 11] = [
    ("SRCDIR_PATH", "/tmp"),
    ("OBJDIR_PATH", "/tmp"),
    ("INSTDIR_PATH", "/usr"),
    ("LIBDIR_PATH", "/lib"),
    ("SLIBDIR_PATH", "/lib"),
    ("BINDIR_PATH", "/bin"),
    ("SBINDIR_PATH", "/sbin"),
    ("ROOTSBINDIR_PATH", "/sbin"),
    ("COMPLOCALEDIR_PATH", "/usr"),
    ("SYSCONFDIR_PATH", "/etc"),
    ("OBJDIR_ELF_LDSO_PATH", "/lib64/ld-linux-x86-64.so.2"),
];

/// Units of redis's tests that grow, copy and save values.
const REDIS_UNITS: [&str; 7] = [
    "unit/type/string",
    "unit/type/list",
    "unit/type/hash",
    "unit/dump",
    "unit/other",
    "unit/bitops",
    "integration/rdb",
];

/// Files of sqlite's tests that sort, grow and copy much, run out of memory, or have threads.
const SQLITE_FILES: [&str; 15] = [
    "backup",
    "bigrow",
    "blob",
    "incrblob",
    "mallocA",
    "memdb",
    "sort",
    "sort2",
    "sort4",
    "thread001",
    "thread005",
    "vacuum",
    "wal",
    "window1",
    "zipfile",
];

/// Returns the tests of a package, built; `None` where the package or a tool is not to be had.
pub(super) fn tests(package: &str) -> Result<Option<Vec<Test>>> {
    let Some(source) = fetched(package)? else { return Ok(None) };
    match package {
        "glibc" => glibc(&source).map(Some),
        "mimalloc" => mimalloc(&source).map(Some),
        "sqlite3" => sqlite(&source),
        _ => Ok(redis(&source)),
    }
}

/// Returns the folder of a source package, fetched and unpacked the first time.
fn fetched(package: &str) -> Result<Option<PathBuf>> {
    let folder = kept()?.join("sources").join(package);
    if !folder.join("unpacked").exists() {
        fs::create_dir_all(folder.join("lists/partial")).context("mkdir")?;
        if !fetch(package, &folder)? {
            return Ok(None);
        }
        fs::write(folder.join("unpacked"), "").context("write")?;
    }
    let entries = fs::read_dir(&folder).context("readdir")?;
    Ok(entries.flatten().map(|entry| entry.path()).find(|path| path.is_dir() && !path.ends_with("lists")))
}

fn fetch(package: &str, folder: &Path) -> Result<bool> {
    let Some(release) = fs::read_to_string("/etc/os-release").ok().and_then(|text| codename(&text)) else {
        return Ok(false);
    };
    // Lists of its own: the machine's may name no source packages.
    let line = format!("deb-src http://deb.debian.org/debian {release} main\n");
    fs::write(folder.join("sources.list"), line).context("write")?;
    let list = format!("Dir::Etc::sourcelist={}", folder.join("sources.list").display());
    let lists = format!("Dir::State::lists={}", folder.join("lists").display());
    let apt_get = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", &list, "-o", "Dir::Etc::sourceparts=-", "-o", &lists]);
        succeeds(command.args(words).current_dir(folder))
    };
    if !apt_get(&["update"]) || !apt_get(&["source", "--download-only", package]) {
        return Ok(false);
    }
    let entries = fs::read_dir(folder).context("readdir")?;
    let mut names = entries.flatten().map(|entry| entry.path());
    let archive = names.find(|path| path.to_string_lossy().contains(".orig.tar"));
    let Some(archive) = archive else { return Ok(false) };
    let mut tar = Command::new("tar");
    tar.arg("xf").arg(archive).current_dir(folder);
    if package == "glibc" {
        // No more: its other headers would take the place of the system's.
        tar.args(["--wildcards", "*/malloc/*", "*/support/*", "glibc-*/include/*", "*/test-skeleton.c"]);
    }
    Ok(succeeds(&mut tar))
}

fn codename(text: &str) -> Option<String> {
    Some(text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?.to_owned())
}

/// Builds the tests of glibc's malloc over the support code that comes with them, as far as both
/// compile outside of glibc's own build.
fn glibc(source: &Path) -> Result<Vec<Test>> {
    let built = source.with_file_name("lists").join("built");
    let headers = built.join("headers");
    fs::create_dir_all(&headers).context("mkdir")?;
    for header in ["libc-diag.h", "array_length.h", "intprops.h"] {
        let from = source.join("include").join(header);
        fs::copy(from, headers.join(header)).context("cp")?;
    }
    fs::write(headers.join("config.h"), "").context("write")?;
    let cc = |words: &[&Path]| {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O1", "-w", "-fno-builtin", "-include", "limits.h", "-D_GNU_SOURCE"]);
        command.args(["-D_ISOMAC", "-DMODULE_NAME=testsuite", "-DTIMEOUTFACTOR=1"]);
        command.args(PLACES.map(|(name, path)| format!("-D{name}=\"{path}\"")));
        for folder in [&headers, source, &source.join("support"), &source.join("malloc")] {
            command.arg("-I").arg(folder);
        }
        succeeds(command.args(words))
    };
    let mut objects = Vec::new();
    for file in c_files(&source.join("support"))? {
        let object = built.join(file.with_extension("o").file_name().unwrap_or_default());
        let is_program = stem(&file).starts_with("tst-") || stem(&file).contains("container");
        if !is_program && cc(&["-c".as_ref(), &file, "-o".as_ref(), &object]) {
            objects.push(object);
        }
    }
    let library = built.join("libsupport.a");
    let _ = fs::remove_file(&library);
    succeeds(Command::new("ar").arg("cr").arg(&library).args(&objects));
    let mut tests = Vec::new();
    for file in c_files(&source.join("malloc"))? {
        let (name, program) = (stem(&file), built.join(stem(&file)));
        let is_left_out = OF_ITS_INSIDES.iter().chain(&TOO_LONG).any(|test| name == *test);
        if name.starts_with("tst-")
            && !is_left_out
            && cc(&[&file, "-o".as_ref(), &program, &library, "-lpthread".as_ref()])
        {
            tests.push(Test { name, folder: built.clone(), words: vec![program.display().to_string()] });
        }
    }
    Ok(tests)
}

fn c_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context("readdir")?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    Ok(files)
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Builds mimalloc's stress over the malloc of the program.
fn mimalloc(source: &Path) -> Result<Vec<Test>> {
    let stress = source.join("test/test-stress.c");
    let Some(program) = tools::compiled(&stress, "stress", &["-DUSE_STD_MALLOC", "-lpthread"])? else {
        return Ok(Vec::new());
    };
    let run = |[threads, load, rounds]: [&str; 3]| Test {
        name: format!("stress {threads} {load} {rounds}"),
        folder: source.into(),
        words: vec![program.display().to_string(), threads.into(), load.into(), rounds.into()],
    };
    Ok(vec![run(["4", "50", "20"]), run(["16", "80", "10"])])
}

/// Returns the run of redis's own tests, on the servers that are installed.
fn redis(source: &Path) -> Option<Vec<Test>> {
    for program in ["redis-server", "redis-cli", "redis-benchmark"] {
        let path = format!("/usr/bin/{program}");
        if !tools::is_installed(&path) || !tools::is_installed("tclsh") {
            return None;
        }
        let _ = std::os::unix::fs::symlink(&path, source.join("src").join(program));
    }
    let mut words = vec!["./runtest".to_owned(), "--clients".into(), "2".into()];
    words.extend(REDIS_UNITS.iter().flat_map(|unit| ["--single".to_owned(), (*unit).to_owned()]));
    Some(vec![Test { name: "runtest".into(), folder: source.into(), words }])
}

/// Builds the program that runs sqlite's own tests; `None` without Tcl's headers.
fn sqlite(source: &Path) -> Result<Option<Vec<Test>>> {
    let (program, folder) = (source.join("testfixture"), source.join("runs"));
    fs::create_dir_all(&folder).context("mkdir")?;
    let build = "./configure --disable-shared && make testfixture";
    if !program.exists() && !succeeds(Command::new("sh").args(["-c", build]).current_dir(source)) {
        return Ok(None);
    }
    let test = |file: &str| {
        let script = source.join("test").join(file).with_extension("test");
        let words = vec![program.display().to_string(), script.display().to_string()];
        Test { name: file.into(), folder: folder.clone(), words }
    };
    Ok(Some(SQLITE_FILES.map(test).into()))
}

/// Runs a test, with an end after ten minutes.
pub(super) fn run(test: &Test, setup: &Setup<'_>) -> Result<Output> {
    let mut command = setup.command("timeout");
    command.arg("600").args(&test.words).current_dir(&test.folder).output().context("timeout")
}
