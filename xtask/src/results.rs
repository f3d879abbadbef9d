//! `cargo xtask results`: runs what can be checked in one command each, and writes what they print to `docs/results.md`.

use crate::process;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Write docs/results.md anew, from the output of the program, and docs/live.svg
///
/// Takes some ten minutes: the claims of the published results in full, that of 2024 on virtual CPUs, and what Linux and designs span in traces of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Less of the published results.
    #[arg(long)]
    quick: bool,
    /// Where to write.
    #[arg(long, default_value = "docs/results.md")]
    out: PathBuf,
}

/// The designs whose spans are compared with Linux's, in traces long enough for many drains.
const SPANS: [&str; 11] = [
    "replay",
    "--purges",
    "both",
    "--design",
    "nodes",
    "--design",
    "vmalloc",
    "--design",
    "vmalloc-cached",
    "lab/designs/tests/data/forks.txt.xz",
    "lab/designs/tests/data/cgroups.txt.xz",
];
/// The plot of designs with many live areas.
const LIVE: [&str; 3] = ["report", "--out", "docs/live.svg"];
/// How the tables begin that sum a trace up.
const SUM: &str = ": peak span of the main window over that in the trace";
const VIRTUAL: [&str; 3] = ["f5", "--cpus", "32"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let build = ["build", "--quiet", "--release", "--manifest-path", "lab/Cargo.toml", "-p", "vmalloc-cli"];
    output("cargo", &build)?;
    let words = if args.quick { &["reproduce", "--quick"][..] } else { &["reproduce"] };
    let published = section("The published results", &claims(&of_lab(words)?));
    let printed = output("cargo", &[&["xtask", "cores"][..], &VIRTUAL].concat())?;
    let cores = section("That of 2024 on 32 virtual CPUs", &command("cargo xtask cores", &VIRTUAL, &printed));
    of_lab(&LIVE)?;
    let printed = of_lab(&SPANS)?;
    let (told, sums) = printed.split_once('\n').context("the command and what it printed")?;
    let is_sum = |part: &&str| part.lines().next().is_some_and(|line| line.ends_with(SUM));
    let sums: Vec<&str> = sums.split("\n\n").filter(is_sum).collect();
    let spans = section(
        "Addresses that Linux and designs span",
        &format!("{told}\n…\n{}\n", sums.join("\n\n").trim_end()),
    );
    fs::write(&args.out, [head()?, published, cores, spans].concat())
        .with_context(|| format!("can't write {}", args.out.display()))
}

/// Returns the parts of what `reproduce` prints that have its claims: of each result the first two,
/// and the last of all.
fn claims(printed: &str) -> String {
    let parts: Vec<&str> = printed.split("\n\n").collect();
    let is_title =
        |part: &str| part.lines().last().is_some_and(|line| line.starts_with('F') && line.contains("): "));
    let is_claim =
        |at: &usize| is_title(parts[*at]) || *at > 0 && is_title(parts[*at - 1]) || *at == parts.len() - 1;
    let kept: Vec<&str> = (0..parts.len()).filter(is_claim).map(|at| parts[at]).collect();
    kept.join("\n\n")
}

/// What ran where.
fn head() -> Result<String> {
    let commit = output("git", &["describe", "--always", "--dirty=, with changes"])?;
    let date = output("date", &["--utc", "+%F"])?;
    let kernel = output("uname", &["-srm"])?;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, model)| model);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(format!(
        "# Results\n\nWritten by `cargo xtask results`; nothing here is typed by hand. Commit {}, {}, {cpus} CPUs of {model}, {}.\n\
         Times are those of this machine on that day; what was published is beside them.\n",
        commit.trim(),
        date.trim(),
        kernel.trim(),
    ))
}

fn section(title: &str, printed: &str) -> String {
    format!("\n## {title}\n\n```text\n{printed}```\n")
}

/// Runs the program of the lab. Returns the command, and what it printed.
fn of_lab(words: &[&str]) -> Result<String> {
    eprintln!("vmalloc-lab {}", words.join(" "));
    Ok(command("vmalloc-lab", words, &output("lab/target/release/vmalloc-lab", words)?))
}

fn command(program: &str, words: &[&str], printed: &str) -> String {
    format!("$ {program} {}\n{printed}", words.join(" "))
}

fn output(program: &str, words: &[&str]) -> Result<String> {
    process::output(Command::new(program).args(words))
}
