//! Counts the blocks of short mappings that published sequences of calls make.

use clap::Parser;
use serde::Serialize;
use std::io;
use std::process::ExitCode;
use vmalloc_bench::output;
use vmalloc_lab::blocks::Variant;
use vmalloc_lab::blocks::scenarios::{self, FunctionProfile, Outcome};
use vmalloc_lab::table::{figure, table};

/// Count the blocks of short mappings that published sequences of calls make
///
/// Three scenarios, blocks of 256 and 1024 slots, three variants: a new block at the head of its queue (before 2015), at
/// its tail (since), and slots that are handed out again (ours). Hit, Time, Avg and s^2 (the variance) are those of a
/// function profiler, in µs, for the function that obtains addresses and the one that returns them, without memory. The
/// last table has the pages of all blocks over the live ones where each block's worth of mappings has one that stays.
/// `vmalloc reproduce f3` compares the counts with those that were published.
#[derive(Parser)]
struct Args {
    /// Print an object instead of tables.
    #[arg(long)]
    json: bool,
    /// Mappings that stay in the last table.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    live: u64,
}

/// Slots of a block.
const SLOTS: [u64; 2] = [256, 1024];

/// A scenario played once.
#[derive(Serialize)]
struct Run {
    scenario: u8,
    slots: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The pages of all blocks over the live ones.
#[derive(Serialize)]
struct Pinned {
    slots: u64,
    variant: Variant,
    span_per_live_page: f64,
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (scenario, slots) in (1..=3).flat_map(|scenario| SLOTS.map(|slots| (scenario, slots))) {
        let run = |variant| Run { scenario, slots, outcome: scenarios::run(scenario, slots, variant) };
        runs.extend(Variant::ALL.map(run));
    }
    runs
}

fn pinned(live: u64) -> Vec<Pinned> {
    let pinned = |(slots, variant)| {
        let span_per_live_page = scenarios::one_long_lived_page_a_block(slots, variant, live);
        Pinned { slots, variant, span_per_live_page }
    };
    SLOTS.into_iter().flat_map(|slots| Variant::ALL.map(|variant| (slots, variant))).map(pinned).collect()
}

fn cells(Run { scenario, slots, outcome }: &Run) -> Vec<String> {
    let profile = |it: &FunctionProfile| {
        [format!("{:.0}", it.time_us), format!("{:.3}", it.avg_us), format!("{:.3}", it.s2_us2)]
    };
    let Outcome { variant, made, freed, map, unmap } = outcome;
    let head = [scenario.to_string(), slots.to_string(), variant.to_string(), map.hit.to_string()];
    head.into_iter().chain([format!("{made}/{freed}")]).chain(profile(map)).chain(profile(unmap)).collect()
}

fn print_tables(runs: &[Run], pinned: &[Pinned], live: u64) -> io::Result<()> {
    let head = [
        "scenario",
        "slots",
        "variant",
        "Hit",
        "made/freed",
        "map Time",
        "Avg",
        "s^2",
        "unmap Time",
        "Avg",
        "s^2",
    ];
    output::line(&table("lrlr", &head, runs.iter().map(cells).collect()))?;
    let clock = scenarios::clock_us();
    output::line(&format_args!(
        "\nTimes in µs; of each Avg {clock:.3} is the clock itself. Pages of all blocks over live ones:\n"
    ))?;
    let row = |pinned: &Pinned| {
        vec![pinned.slots.to_string(), pinned.variant.to_string(), figure(pinned.span_per_live_page)]
    };
    let head = ["slots", "variant", &format!("{live} live")];
    output::line(&table("rlr", &head, pinned.iter().map(row).collect()))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (runs, pinned) = (runs(), pinned(args.live));
    let written = if args.json {
        let object = serde_json::json!({ "runs": runs, "live": args.live, "pinned": pinned });
        output::line(&format_args!("{object:#}"))
    } else {
        print_tables(&runs, &pinned, args.live)
    };
    output::end(written)
}
