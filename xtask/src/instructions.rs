//! `cargo xtask instructions`: exact instruction counts of the allocator under Callgrind.

mod dumps;
mod kernel;

use crate::bounds::Bounds;
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

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
/// allocator "vmalloc Space, unmap") over a platform that does nothing, with a real lock; W8 on the space's
/// blocks of short mappings (for blocks as they were in 2015 count the allocator "vmalloc blocks, classic tail").
/// Counts repeat exactly for one binary; that subtraction of the loop is good to about 3 instructions, as
/// compilers schedule the two loops differently.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whom to count: the start of a name in the tables of the `ranges` benchmark.
    #[arg(long, default_value = "vmalloc")]
    allocator: String,
    /// Turns of the measured loop.
    #[arg(long, default_value_t = 100_000)]
    turns: u64,
    /// Compare the counts with docs/instructions.toml (of a kernel with docs/kernel-instructions.toml), and fail where one differs by
    /// more than 3 %. Without names all rows are counted, the large ones as well.
    #[arg(long)]
    check: bool,
    /// Lower the rows there to the counts, and add those that are missing.
    #[arg(long)]
    bless: bool,
    /// Count what a whole vmalloc takes in a kernel instead: in QEMU, page tables and purges included.
    #[arg(long)]
    kernel: bool,
    /// Workloads to count; all but the large ones (FS-10M) when none is named.
    names: Vec<String>,
}

/// The rows that Callgrind counts, and those that an emulated machine counts. The documents tell them.
const ROWS: [&str; 2] = ["docs/instructions.toml", "docs/kernel-instructions.toml"];
/// The part of a row by which a count may differ from it: compilers differ by that much.
const MARGIN: f64 = 0.03;

/// Counts by the names of workloads.
type Counts = BTreeMap<String, f64>;

/// A workload as the program that counts lists it.
struct Workload {
    name: String,
    pairs_per_turn: u64,
    /// It takes minutes.
    large: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut rows = Bounds::read(ROWS[usize::from(args.kernel)])?;
    let counts = if args.kernel { kernel::run()? } else { callgrind(args, &rows)? };
    if args.bless {
        counts.iter().for_each(|(name, count)| rows.lower(&[name], (count * 10.0).round() / 10.0));
        return rows.write();
    }
    let mut different = different(&counts, &rows);
    if args.names.is_empty() {
        let gone = rows.names(&[]).into_iter().filter(|row| !counts.contains_key(row));
        different.extend(gone.map(|row| format!("{row}: is not counted")));
    }
    let is_as_told = !args.check || different.is_empty();
    ensure!(
        is_as_told,
        "not as the rows (--bless lowers them to what was counted): {}",
        different.join(", ")
    );
    Ok(())
}

fn callgrind(args: &Args, rows: &Bounds) -> Result<Counts> {
    process::output(Command::new("valgrind").arg("--version")).context("try: apt install valgrind")?;
    let program = process::counts()?;
    let workloads = list(&program)?;
    let without = workloads.iter().map(|workload| &*workload.name).find(|name| rows.get(&[name]).is_none());
    if let Some(name) = without.filter(|_| args.check) {
        bail!("there is no row for {name}: --bless adds it");
    }
    let selected = selected(&workloads, args)?.into_iter();
    let count = |workload: &Workload| {
        let count = count(&program, workload, args)?;
        println!("{} {count:.1}", workload.name);
        Ok((workload.name.clone(), count))
    };
    selected.map(count).collect()
}

/// Returns the counts that are not their rows: more as well as fewer, for the documents tell the rows.
fn different(counts: &Counts, rows: &Bounds) -> Vec<String> {
    let different = |(name, &count): (&String, &f64)| {
        let Some(row) = rows.get(&[name]) else {
            return Some(format!("{name}: {count:.1}, and it has no row"));
        };
        let percent = (count / row - 1.0) * 100.0;
        (percent.abs() > MARGIN * 100.0).then(|| format!("{name}: {count:.1}, not {row} ({percent:+.1} %)"))
    };
    counts.iter().filter_map(different).collect()
}

fn list(program: &Path) -> Result<Vec<Workload>> {
    let parse = |line: &str| {
        let [name, pairs, large] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        Some(Workload {
            name: name.to_owned(),
            pairs_per_turn: pairs.parse().ok()?,
            large: large.parse().ok()?,
        })
    };
    Ok(process::output(Command::new(program).arg("--list"))?.lines().filter_map(parse).collect())
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
    let folder = process::empty(process::folder("instructions")?)?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--tool=callgrind", "--instr-atstart=no"])
        // It appends `.1`, `.2`, … for the windows.
        .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
        .arg(program)
        .args([&workload.name, "--allocator", &args.allocator, "--turns", &args.turns.to_string()]);
    process::output(&mut valgrind)?;
    let value = dumps::per_operation(&dumps::read(&folder)?, args.turns * workload.pairs_per_turn);
    value.with_context(|| format!("a window of {} is missing", workload.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_more_than_three_percent_away_from_its_row_is_named() {
        let counts = |values: [f64; 2]| ["a", "b"].map(str::to_owned).into_iter().zip(values).collect();
        let rows = Bounds::parse("", "a = 100.0\nb = 200.0\n").unwrap();
        assert_eq!(different(&counts([102.9, 195.0]), &rows), [""; 0]);
        let told = ["a: 90.0, not 100 (-10.0 %)", "b: 207.0, not 200 (+3.5 %)"];
        assert_eq!(different(&counts([90.0, 207.0]), &rows), told);
        assert_eq!(different(&counts([100.0, 200.0]), &Bounds::parse("", "").unwrap()).len(), 2);
    }
}
