//! `cargo xtask instructions`: exact instruction counts of the allocator under Callgrind.

mod budget;
mod dumps;
mod kernel;

use crate::counts;
use crate::words::Words;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) const HELP: &str = "\
Count the instructions that the allocator executes for one operation of each workload

Prints a line `NAME VALUE` for each workload: user-space instructions for one pair (one allocation and
one free; for W7 one lookup), counted by Callgrind over the measured loop alone.

Not counted: the set-up and its random churn, which run before counting is switched on by a client
request; drawing the random requests, which is done before the loop; and the loop itself (loading the
request, loading and storing the handle), which is measured by playing the same requests through an
allocator that does nothing, and subtracted. Counted: everything else, the system heap and purges
included. FS-align-worst is the largest single call (allocate or free) among the first calls at
alignment 2, 4, … 512 pages, each on a set-up of its own. FS-... run on the area map alone, W... on the
space (by default: areas that kept their pages are reused; for lazy free and purge instead count the
allocator \"vmalloc Space, unmap\") over a platform that does nothing, with a real lock; W8 on the space's blocks of
short mappings (for blocks as they were in 2015 count the allocator \"vmalloc blocks, classic tail\"). Counts repeat exactly for one binary; that
subtraction of the loop is good to about 3 instructions, as compilers schedule the two loops differently.

  --json            Print an object of names and values instead.
  --allocator NAME  Whom to count: the start of a name in the tables of the `ranges` benchmark.
  --turns N         Turns of the measured loop.
  --check           Compare the counts with docs/instructions.toml (of a kernel with docs/kernel-instructions.toml), and fail where one differs by more than 3 %. Without names all rows are counted, the large ones as well.
  --bless           Lower the rows there to the counts, and add those that are missing.
  --kernel          Count what a whole vmalloc takes in a kernel instead, beside Linux's: in QEMU, page tables and purges included.
  ROW…              Workloads to count; all but the large ones (FS-10M) when none is named.";

/// What was asked for: see `HELP`.
pub(crate) struct Args {
    names: Vec<String>,
    json: bool,
    allocator: String,
    turns: u64,
    check: bool,
    bless: bool,
    kernel: bool,
}

impl Args {
    fn of(mut words: Words) -> Result<Self> {
        Ok(Self {
            json: words.has("--json"),
            allocator: words.value("--allocator", "vmalloc".to_owned())?,
            turns: words.value("--turns", 100_000)?,
            check: words.has("--check"),
            bless: words.has("--bless"),
            kernel: words.has("--kernel"),
            names: words.rest()?,
        })
    }
}

/// A workload as the program that counts lists it.
struct Workload {
    name: String,
    pairs_per_turn: u64,
    /// It takes minutes.
    large: bool,
}

pub(crate) fn run(words: Words) -> Result<()> {
    let args = &Args::of(words)?;
    if args.kernel {
        let counts = kernel::run(args.json)?;
        return finish(args, budget::KERNEL, counts);
    }
    check_valgrind()?;
    let program = counts::build()?;
    let mut values = serde_json::Map::new();
    let mut counts = BTreeMap::new();
    let workloads = list(&program)?;
    if args.check {
        budget::has_rows(budget::CALLGRIND, workloads.iter().map(|workload| workload.name.as_str()))?;
    }
    for workload in selected(&workloads, args)? {
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
    finish(args, budget::CALLGRIND, counts)
}

/// Compares the counts with the file that has their rows, or writes them there.
fn finish(args: &Args, path: &'static str, counts: BTreeMap<String, f64>) -> Result<()> {
    if args.bless {
        budget::write(path, counts)?;
    } else if args.check {
        budget::check(path, &counts)?;
    }
    Ok(())
}

fn check_valgrind() -> Result<()> {
    match Command::new("valgrind").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) => Err(error).context("valgrind can't be run; try: apt install valgrind"),
    }
}

fn list(program: &Path) -> Result<Vec<Workload>> {
    let output = Command::new(program).arg("--list").output();
    let output = output.context("can't run the program that counts")?;
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

fn selected<'a>(all: &'a [Workload], args: &Args) -> Result<Vec<&'a Workload>> {
    if args.names.is_empty() {
        return Ok(all.iter().filter(|workload| args.check || !workload.large).collect());
    }
    let find = |name: &String| {
        let found = all.iter().find(|workload| workload.name.eq_ignore_ascii_case(name));
        found.with_context(|| format!("no workload is called {name:?}"))
    };
    args.names.iter().map(find).collect()
}

fn count(program: &Path, workload: &Workload, args: &Args) -> Result<f64> {
    let uncounted = || format!("can't read the counts of {}", workload.name);
    let folder = dumps::Folder::create().with_context(uncounted)?;
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--instr-atstart=no"])
        .arg(format!("--callgrind-out-file={}", folder.file().display()))
        .arg(program)
        .args([&workload.name, "--allocator", &args.allocator, "--turns", &args.turns.to_string()])
        .output()
        .context("can't run valgrind")?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{} failed:\n{output}", workload.name);
    }
    let windows = folder.windows().with_context(uncounted)?;
    let value = dumps::per_operation(&windows, args.turns * workload.pairs_per_turn);
    value.with_context(|| format!("{}: a window is missing", uncounted()))
}
