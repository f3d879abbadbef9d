//! `cargo xtask cores`: designs on virtual CPUs.

use crate::bounds::Bounds;
use crate::process;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Run designs on virtual CPUs, or compare what they take with docs/cores.toml
///
/// The real code of each design runs on 1 to 128 CPUs, in virtual time: `cargo xtask cores help`. What it takes is the same to the
/// digit on every machine, as long as the compiler is. With --check each number is compared with its bar.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with the bars, and fail if a number is above its bar or has none.
    #[arg(long)]
    check: bool,
    /// Compare only what takes seconds.
    #[arg(long)]
    quick: bool,
    /// Run F5 on the real CPUs as well, and show both: this tells whether the machine is like them
    ///
    /// It runs as many loops on both. `--real -- --line 22` says how many nanoseconds a cache line takes between the real CPUs.
    #[arg(long, conflicts_with = "check")]
    real: bool,
    /// Lower the bars to what was counted, and add those that are missing. None is raised.
    #[arg(long, requires = "check")]
    bless: bool,
    /// Words for the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

const PATH: &str = "docs/cores.toml";
/// What the real CPUs made of F5.
const REAL: &str = "target/f5.json";
/// A bar over what was counted when it was set: another compiler makes other blocks.
const ROOM: f64 = 1.05;

type Rows = BTreeMap<String, BTreeMap<String, f64>>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut cores = Command::new(build()?);
    if args.real {
        fs::write(REAL, reproduced()?).context(REAL)?;
        cores.args(["f5", "--cpus", "2", "--loops", "768000", "--real", REAL]);
    }
    if !args.check {
        let status = cores.args(&args.words).status().context("can't run cores")?;
        ensure!(status.success(), "cores ended with {status}");
        return Ok(());
    }
    cores.arg("rows").args(args.quick.then_some("--quick"));
    let rows: Rows = serde_json::from_str(&process::output(&mut cores)?).context("rows of numbers")?;
    let mut bounds = Bounds::read(PATH)?;
    if args.bless {
        lower(&mut bounds, &rows);
        return bounds.write();
    }
    print!("{}", table(&rows, &bounds));
    let above: Vec<_> = complaints(&rows, &bounds);
    ensure!(above.is_empty(), "not within {PATH}:\n{}", above.join("\n"));
    Ok(())
}

/// Builds the program: its compiler is told to have the designs call the machine. Returns its file.
fn build() -> Result<PathBuf> {
    let wrapper = env::current_dir()?.join("lab/machine/rustc.sh");
    let mut cargo = process::cargo();
    cargo.args(["build", "--profile", "machine", "--locked", "--target-dir", "target/machine"]);
    cargo.args(["--manifest-path", "lab/Cargo.toml", "--package", "vmalloc-machine", "--bin", "cores"]);
    process::built(cargo.env("RUSTC_WRAPPER", wrapper).env("RUSTFLAGS", "--cfg machine"))
}

/// Runs F5 on the real CPUs.
fn reproduced() -> Result<String> {
    let cli = ["--manifest-path", "lab/Cargo.toml", "--package", "vmalloc-cli"];
    let program = process::built(process::cargo().args(["build", "--release"]).args(cli))?;
    process::output(Command::new(program).args(["reproduce", "f5", "--quick", "--json"]))
}

/// Returns each number of the rows beside its bar.
fn beside<'a>(
    rows: &'a Rows,
    bounds: &'a Bounds,
) -> impl Iterator<Item = (&'a str, &'a str, f64, Option<f64>)> {
    let each = move |(row, numbers): (&'a String, &'a BTreeMap<String, f64>)| {
        let bar = move |name: &str| bounds.get(&[row, name]);
        numbers.iter().map(move |(name, &number)| (row.as_str(), name.as_str(), number, bar(name)))
    };
    rows.iter().flat_map(each)
}

fn table(rows: &Rows, bounds: &Bounds) -> String {
    let line = |(row, name, number, bar): (&str, &str, f64, Option<f64>)| {
        let bar = bar.map_or_else(|| "no bar".to_owned(), |bar| format!("{bar:.4}"));
        format!("{row:36}{name:24}{number:14.4}{bar:>14}\n")
    };
    format!("{:36}{:24}{:>14}{:>14}\n", "", "", "counted", "bar")
        + &beside(rows, bounds).map(line).collect::<String>()
}

/// Returns what is above its bar, or has none.
fn complaints(rows: &Rows, bounds: &Bounds) -> Vec<String> {
    let above = beside(rows, bounds).filter(|&(.., number, bar)| bar.is_none_or(|bar| number > bar));
    above
        .map(|(row, name, number, bar)| match bar {
            Some(bar) => format!("{row}: {name} is {number}; its bar is {bar}"),
            None => format!("{row}: {name} has no bar, --bless adds it"),
        })
        .collect()
}

/// Lowers the bars.
fn lower(bounds: &mut Bounds, rows: &Rows) {
    for (row, numbers) in rows {
        for (name, number) in numbers {
            // With the digits that the program prints.
            bounds.lower(&[row, name], (number * ROOM * 1e4).round() / 1e4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_above_its_bar_fails_and_blessing_only_lowers() {
        let rows =
            |number| Rows::from([("a, 8 CPUs".to_owned(), BTreeMap::from([("idle".to_owned(), number)]))]);
        let mut bounds = Bounds::parse(PATH, "\"a, 8 CPUs\" = { idle = 2.0 }\n").unwrap();
        assert_eq!(complaints(&rows(2.0), &bounds), [""; 0]);
        assert_eq!(complaints(&rows(2.1), &bounds), ["a, 8 CPUs: idle is 2.1; its bar is 2"]);
        lower(&mut bounds, &rows(10.0));
        assert_eq!(bounds.get(&["a, 8 CPUs", "idle"]), Some(2.0));
        lower(&mut bounds, &rows(1.0));
        assert_eq!(bounds.get(&["a, 8 CPUs", "idle"]), Some(1.05));
        assert_eq!(complaints(&rows(1.0), &Bounds::parse(PATH, "").unwrap()).len(), 1);
    }
}
