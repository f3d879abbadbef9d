//! `cargo xtask machines`: the tests of Linux on emulated machines: the oldest kernel that is promised, other sizes of pages.

pub(crate) mod apt;
mod build;
mod jobs;
pub(crate) mod package;
mod parts;
mod table;

use crate::kernel::{self, Machine};
use crate::step::Counts;
use crate::{process, steps, targets};
use anyhow::{Context, Result, ensure};
use build::Test;
use jobs::Job;
use parts::Part;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use table::Kind;

/// Run the tests of Linux on other machines, in QEMU: linux-6.1, huge-pages, two-nodes, aarch64-16k
///
/// Builds the test programs of the crates for Linux, and for x86-64 those of the preload library, fetches the kernel by
/// apt-get, puts both in a first file system, and boots it. Without words a chosen part runs, in minutes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// All tests.
    #[arg(long)]
    all: bool,
    /// More parameters of the kernel.
    #[arg(long, default_value = "")]
    append: String,
    /// Seconds that one program of tests may take.
    #[arg(long, default_value_t = 900)]
    seconds: u64,
    /// Seconds that the machine may take.
    #[arg(long, default_value_t = 10_800)]
    limit: u64,
    /// The machine; without it all run, one after another.
    machine: Option<String>,
    /// Only tests with one of these words in their names: linux/space, stacks, ...
    names: Vec<String>,
    /// What the test programs take: a part of a test's name, for example.
    #[arg(last = true)]
    words: Vec<String>,
}

/// Parameters of each kernel. A panic ends the machine, and messages of the kernel stay out of the tests' output.
const PARAMETERS: &str = "loglevel=1 panic=-1";

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut failed = Vec::new();
    for kind in table::chosen(args.machine.as_deref())? {
        if let Err(reason) = run_one(kind, args) {
            println!("{}: {reason:#}", kind.name);
            failed.push(kind.name);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn run_one(kind: &Kind, args: &Args) -> Result<()> {
    // Of kernels, and of what is made for them.
    let folder = process::folder("kernels")?;
    let found = kernel::find_qemu(kind.emulator)
        .and_then(|()| Ok((kind.fetched(&folder)?, package::busybox(&folder)?)));
    let ((kernel, shell), own_shell) = match found {
        Ok(found) => found,
        Err(reason) => return steps::nothing_ran(kind.name, format!("{reason:#}")),
    };
    if let Some(target) = kind.target
        && !targets::is_there(target)?
    {
        return steps::nothing_ran(kind.name, format!("the toolchain has no standard library for {target}"));
    }
    let folder = process::folder(&format!("machines/{}", kind.name))?;
    let tests = build::tests(kind.target)?;
    let initramfs = |jobs: &[Job]| {
        let has_job = |test: &&Test| jobs.iter().any(|job| job.program == test.name);
        let tests: Vec<_> = tests.iter().filter(has_job).collect();
        pack(kind, &folder, [&shell, &own_shell], &tests, jobs)
    };
    let boot = |jobs: &[Job]| {
        let mut qemu = Command::new(kind.emulator.program);
        qemu.args(kind.machine.split_whitespace()).arg("-kernel").arg(&kernel);
        qemu.arg("-initrd").arg(initramfs(jobs)?);
        qemu.args(["-append", &format!("{PARAMETERS} {} {}", kind.parameters, args.append)]);
        Machine::start(&mut qemu, Duration::from_secs(args.limit))
    };
    let lists = match kind.target {
        None => parts::lists(&tests).context("a program of tests")?,
        // This machine can't run them.
        Some(_) => told(&tests, &said(&boot(&jobs::lists(&tests))?, |_| ())?),
    };
    let parts = parts::parts(&lists);
    let jobs = jobs::jobs(kind.name, &chosen(&parts, args)?, args.seconds, &args.words);
    jobs::tell_skipped(kind.name);
    let said = said(&boot(&jobs)?, |line| println!("{line}"))?;
    judge(kind.name, &said, &jobs)
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

/// Makes the first file system, with a shell of the machine's; one of this machine packs it. Returns its path.
fn pack(
    kind: &Kind,
    folder: &Path,
    [shell, own_shell]: [&Path; 2],
    tests: &[&Test],
    jobs: &[Job],
) -> Result<PathBuf> {
    let root = process::empty(folder.join("root"))?;
    let mut files: Vec<_> =
        tests.iter().map(|test| (jobs::on_machine(&test.name), test.file.clone())).collect();
    if kind.target.is_none() {
        let programs = folder.join("programs");
        build::preloaded(&programs)?;
        for entry in programs.read_dir()? {
            let entry = entry?;
            files.push((format!("{}/{}", jobs::PROGRAMS, entry.file_name().display()), entry.path()));
        }
    }
    for (path, file) in &files {
        let to = place(&root, path)?;
        match kind.target {
            // Without debug information, which is most of a program.
            None => process::finish(Command::new("strip").arg("--strip-debug").arg("-o").args([&to, file]))?,
            Some(_) => drop(fs::copy(file, to)?),
        }
    }
    if kind.target.is_none() {
        for library in libraries(files.iter().map(|(_, file)| file.as_path()))? {
            fs::copy(&library, place(&root, &library)?)?;
        }
    }
    fs::copy(shell, place(&root, "/bin/busybox")?)?;
    // Of system(3), which tests call.
    symlink("busybox", place(&root, "/bin/sh")?)?;
    fs::write(place(&root, "/jobs")?, jobs.iter().map(Job::line).collect::<String>())?;
    let init = root.join("init");
    fs::write(&init, include_str!("machines/init.sh"))?;
    fs::set_permissions(init, Permissions::from_mode(0o755))?;
    // It is not compressed: the emulated machine copies faster than it inflates.
    let archive = "find . | \"$0\" cpio -o -H newc > ../initramfs";
    process::finish(Command::new("sh").args(["-c", archive]).arg(own_shell).current_dir(&root))?;
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

/// Returns what the console says until the machine is off, and hands each line on.
fn said(machine: &Machine, on_line: impl Fn(&str)) -> Result<String> {
    let mut said = String::new();
    while let Some(line) = machine.line()? {
        on_line(&line);
        said += &format!("{line}\n");
    }
    Ok(said)
}

/// Returns the list of each program's tests, which the console of a machine has told.
fn told(tests: &[Test], said: &str) -> BTreeMap<String, String> {
    let list = |test: &Test| {
        let (lines, _) = begun_and_ended(said, &test.name).unwrap_or_default();
        (test.name.clone(), lines.to_owned())
    };
    tests.iter().map(list).collect()
}

/// Tells which commands have failed, and the counts of tests.
fn judge(name: &str, said: &str, jobs: &[Job]) -> Result<()> {
    let failed = jobs.iter().filter_map(|job| Some(format!("{}: {}", job.name, failure(said, &job.name)?)));
    let failed: Vec<_> = failed.collect();
    let Counts { passed, failed: tests, skipped, .. } = Counts::of(said);
    println!("{name}: {passed} passed, {tests} failed, {skipped} skipped");
    ensure!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
    Ok(())
}

/// Returns the lines of a command, and what follows them; `None` if it did not end.
fn begun_and_ended<'a>(said: &'a str, job: &str) -> Option<(&'a str, &'a str)> {
    let (_, begun) = said.split_once(&format!("== begin {job}\n"))?;
    begun.split_once(&format!("== end {job} "))
}

/// Returns why a command failed, by what the console has said of it; `None` if it passed.
fn failure(said: &str, job: &str) -> Option<String> {
    let Some((lines, end)) = begun_and_ended(said, job) else { return Some("it did not end".to_owned()) };
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
