//! `cargo xtask kernels`: the tests of Linux on the oldest kernel that is promised, in an emulated machine.

mod build;
mod jobs;
pub(crate) mod package;
mod parts;

use crate::kernel::{self, Architecture, Machine};
use crate::process;
use crate::step::Counts;
use crate::steps;
use anyhow::{Context, Result, ensure};
use build::Test;
use jobs::Job;
use parts::Part;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
    let found = kernel::find_qemu(Architecture::X86)
        .and_then(|()| Ok((package::kernel(OLDEST, &folder)?, package::busybox(&folder)?)));
    let (kernel, busybox) = match found {
        Ok(found) => found,
        Err(reason) => {
            return steps::nothing_ran("Linux 6.1 in QEMU", format!("{reason:#}"));
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
    let (programs, root) = (folder.join("programs"), process::empty(folder.join("root"))?);
    build::preloaded(&programs)?;
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
    // Of system(3), which tests call.
    symlink("busybox", place(&root, "/bin/sh")?)?;
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

/// Shows the console until the machine is off, and tells which commands have failed.
fn watch(machine: &Machine, jobs: &[Job]) -> Result<()> {
    let mut said = String::new();
    while let Some(line) = machine.line()? {
        println!("{line}");
        said += &format!("{line}\n");
    }
    let failed = jobs.iter().filter_map(|job| Some(format!("{}: {}", job.name, failure(&said, &job.name)?)));
    let failed: Vec<_> = failed.collect();
    let Counts { passed, failed: tests, skipped, .. } = Counts::of(&said);
    println!("{passed} passed, {tests} failed, {skipped} skipped");
    ensure!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
    Ok(())
}

/// Returns why a command failed, by what the console has said of it; `None` if it passed.
fn failure(said: &str, job: &str) -> Option<String> {
    let part = said.split_once(&format!("== begin {job}\n")).map(|(_, begun)| begun);
    let ended = part.and_then(|begun| begun.split_once(&format!("== end {job} ")));
    let Some((lines, end)) = ended else { return Some("it did not end".to_owned()) };
    match end.lines().next().and_then(|end| end.split_once(' ')) {
        Some((_, "exit 0")) if lines.contains("test result: ") => None,
        Some((_, "exit 0")) => Some("it reported no tests".to_owned()),
        other => Some(other.map_or("no status", |(_millis, end)| end).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn commands_pass_that_end_well_and_report_tests() {
        let said = "noise\n== begin linux/space\n  test result: ok. 5 passed\n== end linux/space 1500 exit 0\n\
            == begin linux/drain\ntest one ... ok\n== end linux/drain 60000 late\n\
            == begin x\n== end x 10 exit 0\n== begin linux/fork\n";
        let failures = ["linux/space", "linux/drain", "x", "linux/fork", "y"].map(|job| failure(said, job));
        let told =
            [Some("late"), Some("it reported no tests"), Some("it did not end"), Some("it did not end")];
        assert_eq!(failures[0], None);
        assert_eq!(failures[1..].iter().map(Option::as_deref).collect::<Vec<_>>(), told);
    }
}
