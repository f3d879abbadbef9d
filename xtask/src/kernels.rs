//! `cargo xtask kernels`: the tests of Linux on the oldest kernel that is promised, in an emulated machine.

mod build;
mod initramfs;
mod jobs;
mod machine;
mod package;
mod parts;
mod report;

use crate::kernel;
use build::Test;
use initramfs::Initramfs;
use jobs::Job;
use machine::Machine;
use parts::Part;
use report::{Counts, Ended, Reader};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Run the tests of Linux on Debian's Linux 6.1, in QEMU
///
/// Builds the test programs of the crates for Linux and of the preload library, fetches the kernel by apt-get, puts both
/// in a first file system, and boots it. Without words a chosen part runs, in minutes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests with one of these words in their names: linux/space, stacks, ...
    names: Vec<String>,
    /// All tests
    #[arg(long)]
    all: bool,
    /// More parameters of the kernel, for example transparent_hugepage=always
    #[arg(long, default_value = "")]
    append: String,
    /// Seconds that one program of tests may take
    #[arg(long, default_value_t = 900)]
    seconds: u64,
    /// Seconds that the machine may take
    #[arg(long, default_value_t = 10_800)]
    limit: u64,
    /// What the test programs take: a part of a test's name, for example
    #[arg(last = true)]
    words: Vec<String>,
}

/// Why the tests could not be run, or that they failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("can't run {what}: {cause}")]
    Run { what: String, cause: std::io::Error },
    #[error("the tests can't be built")]
    Build,
    #[error("{0} can't be compiled")]
    Compile(String),
    #[error("no test has one of these words in its name")]
    Unknown,
    #[error("the machine was not over in time")]
    Late,
    #[error("{0} of the programs of tests failed, or did not report")]
    Failed(usize),
}

/// The oldest kernel that is promised.
const OLDEST: &str = "6.1";

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let folder = folder()?;
    if let Err(error) = kernel::find_qemu() {
        println!("NOT RUN: {error}");
        return Ok(());
    }
    let kernel = match package::kernel(OLDEST, &folder) {
        Ok(kernel) => kernel,
        Err(reason) => {
            println!("NOT RUN: {reason}");
            return Ok(());
        }
    };
    let tests = build::tests()?;
    let cause = |cause| Error::Run { what: "a program of tests".to_owned(), cause };
    let parts = parts::parts(&tests).map_err(cause)?;
    let chosen = chosen(&parts, args)?;
    let jobs = jobs::jobs(&chosen, args.seconds, &args.words);
    jobs::tell_skipped();
    let has_job = |test: &&Test| chosen.iter().any(|part| part.program == test.name);
    let initramfs = pack(&folder, &tests.iter().filter(has_job).collect::<Vec<_>>(), &jobs)?;
    let machine = Machine::boot(&kernel, &initramfs, &args.append, Duration::from_secs(args.limit))?;
    watch(&machine, &jobs)
}

/// Returns the folder of kernels and of what is made for them.
fn folder() -> Result<PathBuf, Error> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = Path::new(&target).join("kernels");
    let made = fs::create_dir_all(&folder).and_then(|()| std::path::absolute(&folder));
    made.map_err(|cause| Error::Run { what: "mkdir".to_owned(), cause })
}

/// Returns the tests that were asked for.
fn chosen<'a>(parts: &'a [Part], args: &Args) -> Result<Vec<&'a Part>, Error> {
    let is_chosen = |part: &&Part| match &args.names[..] {
        [] => args.all || jobs::is_chosen(&part.name),
        names => names.iter().any(|name| part.name.contains(name.as_str())),
    };
    let chosen: Vec<_> = parts.iter().filter(is_chosen).collect();
    if chosen.is_empty() { Err(Error::Unknown) } else { Ok(chosen) }
}

/// Makes the first file system. Returns its path.
fn pack(folder: &Path, tests: &[&Test], jobs: &[Job]) -> Result<PathBuf, Error> {
    let programs = folder.join("programs");
    build::preloaded(&programs)?;
    let cause = |cause| Error::Run { what: "the first file system".to_owned(), cause };
    let mut files = vec![("/init".to_owned(), build::init()?)];
    files.extend(tests.iter().map(|test| (jobs::on_machine(&test.name), test.file.clone())));
    for entry in programs.read_dir().map_err(cause)? {
        let entry = entry.map_err(cause)?;
        files.push((format!("{}/{}", jobs::PROGRAMS, entry.file_name().display()), entry.path()));
    }
    let mut archive = Initramfs::default();
    for path in libraries(files.iter().map(|(_, file)| file.as_path()))? {
        archive.add(&path, Path::new(&path)).map_err(cause)?;
    }
    let stripped = folder.join("stripped");
    for (path, file) in &files {
        strip(file, &stripped)?;
        archive.add(path, &stripped).map_err(cause)?;
    }
    archive.add_text("/commands", &jobs.iter().map(Job::line).collect::<String>());
    let path = folder.join("initramfs");
    fs::write(&path, archive.finish()).map_err(cause)?;
    Ok(path)
}

/// Copies a program without its debug information, which is most of it.
fn strip(from: &Path, to: &Path) -> Result<(), Error> {
    let cause = |cause| Error::Run { what: "strip".to_owned(), cause };
    let status =
        Command::new("strip").arg("--strip-debug").arg("-o").args([to, from]).status().map_err(cause)?;
    let failed = || cause(std::io::Error::other(format!("{}: {status}", from.display())));
    if status.success() { Ok(()) } else { Err(failed()) }
}

/// Returns the shared libraries that some programs load, and the loader.
fn libraries<'a>(programs: impl Iterator<Item = &'a Path>) -> Result<BTreeSet<String>, Error> {
    let cause = |cause| Error::Run { what: "ldd".to_owned(), cause };
    let output = Command::new("ldd").args(programs).output().map_err(cause)?;
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    // The lines of a program's libraries begin with a tab; its name stands before them.
    Ok(answer.lines().filter(|line| line.starts_with('\t')).filter_map(path).collect())
}

/// Reads the console until the machine is off, and tells how each command ended.
fn watch(machine: &Machine, jobs: &[Job]) -> Result<(), Error> {
    let (start, mut reader, mut ended) = (Instant::now(), Reader::default(), Vec::new());
    while let Some(line) = machine.line().inspect_err(|_| show(reader.rest()))? {
        if let Some(report) = reader.take(&line) {
            tell(&report);
            ended.push(report);
        }
    }
    if !reader.is_over {
        show(reader.rest());
    }
    let is_silent = |job: &&Job| ended.iter().all(|report| report.name != job.name);
    let silent =
        jobs.iter().filter(is_silent).inspect(|job| println!("{}: did not report", job.name)).count();
    let failed = silent + ended.iter().filter(|report| report.failure.is_some()).count();
    let mut counts = ended.iter().map(|report| report.counts).fold(Counts::default(), Counts::plus);
    counts.failed += silent;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        counts.passed,
        counts.failed,
        counts.ignored,
        start.elapsed().as_secs_f64()
    );
    if failed == 0 { Ok(()) } else { Err(Error::Failed(failed)) }
}

/// Prints the report of a command, and what it wrote if it failed.
fn tell(report: &Ended) {
    let Ended { name, counts, millis, failure, lines } = report;
    let seconds = *millis as f64 / 1000.0;
    let Counts { passed, failed, ignored } = counts;
    match failure {
        None => println!("{name}: {passed} passed, {ignored} ignored, {seconds:.1} s"),
        Some(why) => {
            show(lines);
            println!("{name}: FAILED ({why}): {passed} passed, {failed} failed, {seconds:.1} s");
        }
    }
    for line in lines.iter().filter(|line| failure.is_none() && line.contains("NOT RUN")) {
        println!("  {line}");
    }
}

fn show(lines: &[String]) {
    lines.iter().for_each(|line| println!("  {line}"));
}
