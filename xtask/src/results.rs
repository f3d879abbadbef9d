//! `cargo xtask results`: runs what can be checked in one command each, and writes what they print to `docs/results.md`.

use crate::process;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Write docs/results.md anew, from the output of the program
///
/// Takes some ten minutes: the published results in full, the traces of the tests on every design, and ten million events.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Less of the published results.
    #[arg(long)]
    quick: bool,
    /// Where to write.
    #[arg(long, default_value = "docs/results.md")]
    out: PathBuf,
}

/// The traces that the tests read: of kernels, and of a program.
const TRACES: [&str; 4] = [
    "lab/designs/tests/data/la57.txt.xz",
    "lab/designs/tests/data/modules.txt.zst",
    "lab/designs/tests/data/program.txt.gz",
    "lab/designs/tests/data/short.txt",
];

/// Traces long enough for many drains.
const LONG_TRACES: [&str; 2] =
    ["lab/designs/tests/data/forks.txt.xz", "lab/designs/tests/data/cgroups.txt.xz"];
/// The designs whose spans are compared with Linux's.
const SPANS: [&str; 9] =
    ["replay", "--purges", "both", "--design", "nodes", "--design", "vmalloc", "--design", "vmalloc-cached"];
/// What a reader of older results has to know.
const SPANS_CHANGED: &str = "\nSince November 2026 the design `nodes` drains as Linux 6.12 does: a pool of fewer than four areas is emptied \
    at a drain, pools are last in, first out, refilled in rising address order, and only the main window has any; all windows share one count of \
    lazy pages. And purges of the trace take the place of those at thresholds, where both came before. Its peak span over that in \
    the trace was 0.86 and 1.94 on two whole traces, and is 1.00 on both (`vmalloc replay --purges both`).\n";

pub(crate) fn run(args: &Args) -> Result<()> {
    let build = ["build", "--quiet", "--release", "--manifest-path", "lab/Cargo.toml", "-p", "vmalloc-cli"];
    output("cargo", &build)?;
    let head = head()?;
    // The longest last.
    let traces =
        section("Real traces on every design", &[&["replay", "--design", "all"][..], &TRACES].concat())?;
    let spans = section("Addresses that Linux and designs span", &[&SPANS[..], &LONG_TRACES].concat())?;
    let events =
        section("Ten million events", &["replay", "--synthetic", "10000000", "--design", "vmalloc"])?;
    let quick: &[&str] = if args.quick { &["--quick"] } else { &[] };
    let published = section("The published results", &[&["reproduce"], quick].concat())?;
    let text = [head.as_str(), &published, &spans, SPANS_CHANGED, &traces, &events].concat();
    fs::write(&args.out, text).with_context(|| format!("can't write {}", args.out.display()))
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

/// The command, and what it printed.
fn section(title: &str, words: &[&str]) -> Result<String> {
    let words_together = words.join(" ");
    eprintln!("vmalloc {words_together}");
    let printed = output("lab/target/release/vmalloc", words)?;
    Ok(format!("\n## {title}\n\n```text\n$ vmalloc {words_together}\n{printed}```\n"))
}

fn output(program: &str, words: &[&str]) -> Result<String> {
    process::output(Command::new(program).args(words))
}
