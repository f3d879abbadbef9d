//! `cargo xtask kernels`: the tests of Linux on the oldest kernel that is promised, in an emulated machine.

mod build;
mod jobs;
mod package;
mod parts;
mod report;

use crate::kernel::{self, Machine};
use crate::process;
use crate::step::Counts;
use anyhow::{Context, Result, ensure};
use build::Test;
use jobs::Job;
use parts::Part;
use report::{Ended, Reader};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Run the tests of Linux on Debian's Linux 6.1, in QEMU
///
/// Builds the test programs of the crates for Linux and of the preload library, fetches the kernel by apt-get, puts both
/// in a first file system, and boots it. Without words a chosen part runs, in minutes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// All tests.
    #[arg(long)]
    all: bool,
    /// More parameters of the kernel, for example transparent_hugepage=always.
    #[arg(long, default_value = "")]
    append: String,
    /// Seconds that one program of tests may take.
    #[arg(long, default_value_t = 900)]
    seconds: u64,
    /// Seconds that the machine may take.
    #[arg(long, default_value_t = 10_800)]
    limit: u64,
    /// Only tests with one of these words in their names: linux/space, stacks, ...
    names: Vec<String>,
    /// What the test programs take: a part of a test's name, for example.
    #[arg(last = true)]
    words: Vec<String>,
}

/// Two threads of this machine. `max` is all that the emulator can: five levels of page tables too.
const MACHINE: [&str; 8] = ["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G"];
/// Parameters of each kernel. A panic ends the machine, and messages of the kernel stay out of the tests' output. Huge
/// pages are for those who ask: tests count pages.
const PARAMETERS: &str = "console=ttyS0 loglevel=1 panic=-1 transparent_hugepage=madvise";

/// The oldest kernel that is promised.
const OLDEST: &str = "6.1";

pub(crate) fn run(args: &Args) -> Result<()> {
    // Of kernels, and of what is made for them.
    let folder = process::folder("kernels")?;
    if let Err(error) = kernel::find_qemu() {
        vmalloc_harness::not_run("Linux 6.1 in QEMU", error);
        return Ok(());
    }
    let busybox = || package::busybox(&folder);
    let (kernel, busybox) = match package::kernel(OLDEST, &folder).and_then(|kernel| Ok((kernel, busybox()?)))
    {
        Ok(found) => found,
        Err(reason) => {
            vmalloc_harness::not_run("Linux 6.1 in QEMU", reason);
            return Ok(());
        }
    };
    let tests = build::tests()?;
    let parts = parts::parts(&tests).context("a program of tests")?;
    let chosen = chosen(&parts, args)?;
    let jobs = jobs::jobs(&chosen, args.seconds, &args.words);
    jobs::tell_skipped();
    let has_job = |test: &&Test| chosen.iter().any(|part| part.program == test.name);
    let initramfs = pack(&folder, &busybox, &tests.iter().filter(has_job).collect::<Vec<_>>(), &jobs)?;
    let mut qemu = Command::new(kernel::QEMU);
    qemu.args(MACHINE).arg("-kernel").arg(&kernel).arg("-initrd").arg(&initramfs);
    qemu.args(["-append", &format!("{PARAMETERS} {}", args.append)]);
    watch(&Machine::start(&mut qemu, Duration::from_secs(args.limit))?, &jobs)
}

/// Returns the tests that were asked for.
fn chosen<'a>(parts: &'a [Part], args: &Args) -> Result<Vec<&'a Part>> {
    let is_chosen = |part: &&Part| match &args.names[..] {
        [] => args.all || jobs::is_chosen(&part.name),
        names => names.iter().any(|name| part.name.contains(name.as_str())),
    };
    let chosen: Vec<_> = parts.iter().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no test has such a name");
    Ok(chosen)
}

/// Makes the first file system. Returns its path.
fn pack(folder: &Path, busybox: &Path, tests: &[&Test], jobs: &[Job]) -> Result<PathBuf> {
    let (programs, root) = (folder.join("programs"), folder.join("root"));
    build::preloaded(&programs)?;
    // What an earlier run has packed.
    let _ = fs::remove_dir_all(&root);
    let mut files: Vec<_> =
        tests.iter().map(|test| (jobs::on_machine(&test.name), test.file.clone())).collect();
    for entry in programs.read_dir()? {
        let entry = entry?;
        files.push((format!("{}/{}", jobs::PROGRAMS, entry.file_name().display()), entry.path()));
    }
    for (path, file) in &files {
        let to = place(&root, path)?;
        // Without debug information, which is most of a program.
        process::finish(Command::new("strip").arg("--strip-debug").arg("-o").args([&to, file]))?;
    }
    for library in libraries(files.iter().map(|(_, file)| file.as_path()))? {
        fs::copy(&library, place(&root, &library)?)?;
    }
    fs::copy(busybox, place(&root, "/bin/busybox")?)?;
    fs::write(place(&root, "/jobs")?, jobs.iter().map(Job::line).collect::<String>())?;
    let init = root.join("init");
    fs::write(&init, include_str!("kernels/init.sh"))?;
    fs::set_permissions(init, Permissions::from_mode(0o755))?;
    // It is not compressed: the emulated machine copies faster than it inflates.
    let archive = "find . | bin/busybox cpio -o -H newc > ../initramfs";
    process::finish(Command::new("sh").args(["-c", archive]).current_dir(&root))?;
    Ok(folder.join("initramfs"))
}

/// Returns where a file of the machine lies below `root`, whose folder is made.
fn place(root: &Path, path: &str) -> Result<PathBuf> {
    let file = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(file.parent().unwrap_or(root))?;
    Ok(file)
}

/// Returns the shared libraries that some programs load, and the loader.
fn libraries<'a>(programs: impl Iterator<Item = &'a Path>) -> Result<BTreeSet<String>> {
    // It fails where one of them loads none.
    let output = Command::new("ldd").args(programs).output().context("ldd")?;
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    // The lines of a program's libraries begin with a tab; its name stands before them.
    Ok(answer.lines().filter(|line| line.starts_with('\t')).filter_map(path).collect())
}

/// Reads the console until the machine is off, and tells how each command ended.
fn watch(machine: &Machine, jobs: &[Job]) -> Result<()> {
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
    counts.failed += silent as u64;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        counts.passed,
        counts.failed,
        counts.skipped,
        start.elapsed().as_secs_f64()
    );
    ensure!(failed == 0, "{failed} test programs failed");
    Ok(())
}

/// Prints the report of a command, and what it wrote if it failed.
fn tell(report: &Ended) {
    let Ended { name, counts, millis, failure, lines } = report;
    let seconds = *millis as f64 / 1000.0;
    let Counts { passed, failed, skipped, .. } = counts;
    match failure {
        None => println!("{name}: {passed} passed, {skipped} ignored, {seconds:.1} s"),
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
