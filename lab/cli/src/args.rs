//! The command line.

use crate::machine::MachineOptions;
use crate::test::help;
use crate::worker_threads::MAX_THREADS;
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroU64;
use std::path::PathBuf;
use vmalloc_inspect::program;
use vmalloc_lab::designs::Name;
use vmalloc_lab::replay::Purges;
use vmalloc_lab::reproduce::Figure;

/// Returns the definition of the program.
pub(crate) fn definition() -> clap::Command {
    program::definition::<Command>()
        .name("vmalloc-lab")
        .about("Virtual-address allocators at work: Linux's test driver, traces, published results")
        .after_help(
            "\
Examples: vmalloc-lab test smoke; vmalloc-lab reproduce --quick; vmalloc-lab completions bash; vmalloc-lab man

Exit codes: 0 all went well, 1 a test or a replay failed, 2 bad usage, or a file or machine that does not allow it.",
        )
        .mut_subcommand("test", |test| test.after_help(help::after_help()))
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run Linux's test driver: many workers on one shared space
    Test(TestOptions),
    /// Measure how late a periodic thread wakes while others allocate and free
    Latency(LatencyOptions),
    /// Measure Linux's published results again, on the designs they were published for, and on this
    /// one
    Reproduce(ReproduceOptions),
    /// Replay traces of Linux's vmalloc or of a program's mappings on designs of address allocators
    Replay(ReplayOptions),
    /// Measure all designs of the lab side by side, and write one page with plots
    Report(ReportOptions),
}

/// Options of `vmalloc-lab test`.
#[derive(Args, Debug)]
pub(crate) struct TestOptions {
    /// A preset (performance, smoke, stress), names of cases, and parameters as KEY=VALUE; see
    /// below
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// The space to run on.
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Print the table of cases and run nothing
    #[arg(long)]
    pub(crate) list: bool,
}

/// Options of `vmalloc-lab latency`.
#[derive(Args, Debug)]
pub(crate) struct LatencyOptions {
    /// Threads that allocate and free all the time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub(crate) threads: Option<u64>,
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// The space to run on.
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
}

/// Options of `vmalloc-lab reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "\
f1  free list instead of a scan of busy areas (2018)
f2  augmented tree instead of lists (2019)
f3  blocks of short mappings at the tail of their queue (2015)
f4  purge without a held lock (2016)
f5  a node for each CPU instead of one tree (2024)

Exit codes: 0 all that are judged are reproduced, 1 one is not reproduced, 2 bad usage.")]
pub(crate) struct ReproduceOptions {
    /// Which results: f1 to f5 [default: all five]
    #[arg(value_name = "FIGURE", value_parser = crate::reproduce::figure)]
    pub(crate) figures: Vec<Figure>,
    /// Less of each: under two minutes for all five
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Options of `vmalloc-lab report`.
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    /// Write the page to this file, or the plot of many live areas alone where its name ends in
    /// .svg [default: vmalloc-report.html; with --json none]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Measure less, in a tenth of the time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure this design [default: each generation as it was, and ours]; may be given more than
    /// once
    #[arg(long, value_name = "NAME")]
    pub(crate) design: Vec<Name>,
    /// The most live areas [default: 1000000, with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) live_max: Option<u64>,
}

/// The purges of a replay: a replay for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Replayed {
    Own,
    Trace,
    Both,
}

impl Replayed {
    /// The replays.
    pub(crate) const fn purges(self) -> &'static [Purges] {
        match self {
            Self::Own => &[Purges::Own],
            Self::Trace => &[Purges::Trace],
            Self::Both => &[Purges::Own, Purges::Trace],
        }
    }
}

/// Options of `vmalloc-lab replay`.
#[derive(Args, Debug)]
pub(crate) struct ReplayOptions {
    /// Traces, compressed or not: text of Linux's tracepoints, or text of strace (of one process);
    /// quoted and numbered lines are read as well; '-' is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A design to replay on, or 'all'; may be repeated [default: vmalloc]
    #[arg(long, value_name = "NAME")]
    pub(crate) design: Vec<String>,
    /// Stop at the first line that can't be read
    #[arg(long)]
    pub(crate) strict: bool,
    /// When designs purge: at their own thresholds, when the trace did, or first the one and then
    /// the other, and spans side by side
    #[arg(long, value_name = "WHEN", default_value = "own")]
    pub(crate) purges: Replayed,
    /// Let memory be short after every N calls: designs give back what they keep for reuse (nodes
    /// their pools, ours what is lazy as well, the others nothing)
    #[arg(long, value_name = "N")]
    pub(crate) pressure: Option<NonZeroU64>,
    /// Replay a made-up trace of so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) synthetic: Option<u64>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
