//! `cargo xtask instructions`: exact instruction counts of the allocator under Callgrind.

mod budget;
mod dumps;
mod kernel;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Count the instructions that the allocator executes for one operation of each workload
///
/// Prints a line `NAME VALUE` for each workload: user-space instructions for one pair (one allocation and
/// one free; for W7 one lookup), counted by Callgrind over the measured loop alone.
///
/// Not counted: the set-up and its random churn, which run before counting is switched on by a client
/// request; drawing the random requests, which is done before the loop; and the loop itself (loading the
/// request, loading and storing the handle), which is measured by playing the same requests through an
/// allocator that does nothing, and subtracted. Counted: everything else, the system heap and purges
/// included. FS-align-worst is the largest single call (allocate or free) among the first calls at
/// alignment 2, 4, … 512 pages, each on a set-up of its own. FS-... run on the area map alone, W... on the
/// space (by default: areas that kept their pages are reused; for lazy free and purge instead count the
/// allocator "vmalloc Space, unmap") over a platform that does nothing, with a real lock; W8 on the space's blocks of
/// short mappings (for blocks as they were in 2015 count the allocator "vmalloc blocks, classic tail"). Counts repeat exactly for one binary; that
/// subtraction of the loop is good to about 3 instructions, as compilers schedule the two loops differently.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Workloads to count; all but the large ones (FS-10M) when none is named.
    names: Vec<String>,
    /// Print an object of names and values instead.
    #[arg(long)]
    json: bool,
    /// Whom to count: the start of a name in the tables of the `ranges` benchmark.
    #[arg(long, default_value = "vmalloc")]
    allocator: String,
    /// Turns of the measured loop.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    turns: u64,
    /// Compare the counts with docs/instructions.toml, and fail where one is more than 3 % above it.
    #[arg(long, conflicts_with_all = ["json", "allocator", "turns", "kernel"])]
    check: bool,
    /// Write the counts to docs/instructions.toml.
    #[arg(long, conflicts_with_all = ["json", "allocator", "turns", "kernel", "check"])]
    bless: bool,
    /// Count what a whole vmalloc takes in a kernel instead, beside Linux's: in QEMU, page tables and purges included.
    #[arg(long, conflicts_with_all = ["names", "allocator", "turns"])]
    kernel: bool,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("valgrind is not installed; try: apt install valgrind")]
    NoValgrind,
    #[error("cannot run {program}: {error}")]
    Start { program: &'static str, error: io::Error },
    #[error("cannot build the instr binary")]
    Build,
    #[error("no workload is called {0:?}")]
    UnknownWorkload(String),
    #[error("{name} failed:\n{output}")]
    Run { name: String, output: String },
    #[error("cannot read the counts of {name}: {why}")]
    Counts { name: String, why: String },
    #[error(transparent)]
    Budget(#[from] budget::Error),
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
}

/// A workload as the instr binary lists it.
struct Workload {
    name: String,
    pairs_per_turn: u64,
    /// It takes minutes.
    large: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.kernel {
        return Ok(kernel::run(args.json)?);
    }
    check_valgrind()?;
    let program = build()?;
    let mut values = serde_json::Map::new();
    let mut counts = BTreeMap::new();
    for workload in selected(&list(&program)?, &args.names)? {
        let value = count(&program, workload, args)?;
        counts.insert(workload.name.clone(), value);
        if args.json {
            values.insert(workload.name.clone(), ((value * 10.0).round() / 10.0).into());
        } else {
            println!("{} {value:.1}", workload.name);
        }
    }
    if args.json {
        println!("{}", serde_json::Value::from(values));
    }
    if args.bless {
        budget::write(counts)?;
    } else if args.check {
        budget::check(&counts)?;
    }
    Ok(())
}

fn check_valgrind() -> Result<(), Error> {
    match Command::new("valgrind").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NoValgrind),
        Err(error) => Err(Error::Start { program: "valgrind", error }),
    }
}

/// Builds the instr binary; cargo says where it is.
fn build() -> Result<PathBuf, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "vmalloc-bench", "--bin", "instr"])
        .args(["--no-default-features", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Error::Start { program: "cargo", error })?;
    if !output.status.success() {
        return Err(Error::Build);
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    };
    messages.lines().filter_map(executable).next_back().ok_or(Error::Build)
}

fn list(program: &Path) -> Result<Vec<Workload>, Error> {
    let output = Command::new(program).arg("--list").output();
    let output = output.map_err(|error| Error::Start { program: "instr", error })?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| {
        let [name, pairs, large] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Workload {
            name: name.to_owned(),
            pairs_per_turn: pairs.parse().ok()?,
            large: large.parse().ok()?,
        })
    };
    Ok(listed.lines().filter_map(parse).collect())
}

fn selected<'a>(all: &'a [Workload], names: &[String]) -> Result<Vec<&'a Workload>, Error> {
    if names.is_empty() {
        return Ok(all.iter().filter(|workload| !workload.large).collect());
    }
    let find = |name: &String| {
        let found = all.iter().find(|workload| workload.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::UnknownWorkload(name.clone()))
    };
    names.iter().map(find).collect()
}

fn count(program: &Path, workload: &Workload, args: &Args) -> Result<f64, Error> {
    let counts_error = |why: String| Error::Counts { name: workload.name.clone(), why };
    let folder = dumps::Folder::create().map_err(|error| counts_error(error.to_string()))?;
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--instr-atstart=no"])
        .arg(format!("--callgrind-out-file={}", folder.file().display()))
        .arg(program)
        .args([&workload.name, "--allocator", &args.allocator, "--turns", &args.turns.to_string()])
        .output()
        .map_err(|error| Error::Start { program: "valgrind", error })?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Run { name: workload.name.clone(), output });
    }
    let windows = folder.windows().map_err(|error| counts_error(error.to_string()))?;
    let value = dumps::per_operation(&windows, args.turns * workload.pairs_per_turn);
    value.ok_or_else(|| counts_error("a window is missing".to_owned()))
}
