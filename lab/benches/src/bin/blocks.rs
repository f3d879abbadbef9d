//! Counts the blocks of short mappings that published sequences of calls make.

use clap::Parser;
use std::io;
use std::process::ExitCode;
use vmalloc_bench::output;
use vmalloc_bench::scenarios::{self, POLICIES, Run, SLOTS};
use vmalloc_bench::table::{self, figure};
use vmalloc_lab::blocks::scenarios::FunctionProfile;

/// Count the blocks of short mappings that published sequences of calls make
///
/// Three scenarios, blocks of 256 and 1024 slots, three policies: a new block at the head of its queue (before 2015), at its
/// tail (since), and slots that are handed out again (ours). "known" is what was published for 1024 slots, or measured on
/// Linux 6.1 and 6.12 for 256. Hit, Time, Avg and s^2 (the variance) are those of a function profiler, in µs, for the
/// function that obtains addresses and the one that returns them, on a platform that does nothing. The last table has the
/// pages of all blocks over the live ones where each block's worth of mappings has one that stays.
#[derive(Parser)]
struct Args {
    /// Print an object instead of tables.
    #[arg(long)]
    json: bool,
    /// Mappings that stay in the last table.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    live: u64,
}

/// Pages of all blocks over the live ones, by slots and policy.
type Pinned = Vec<(u64, &'static str, f64)>;

fn runs() -> Vec<Run> {
    let rows = (1..=3).flat_map(|scenario| SLOTS.map(|slots| (scenario, slots)));
    rows.flat_map(|(scenario, slots)| POLICIES.map(|policy| scenarios::run(scenario, slots, policy)))
        .collect()
}

fn pinned(live: u64) -> Pinned {
    let of = |slots| {
        POLICIES
            .map(|(policy, name)| (slots, name, scenarios::one_long_lived_page_a_block(slots, policy, live)))
    };
    SLOTS.into_iter().flat_map(of).collect()
}

fn counts((made, freed): (u64, u64)) -> String {
    format!("{made}/{freed}")
}

fn cells(run: &Run) -> Vec<String> {
    let known = run.known.map_or(table::NONE.to_owned(), counts);
    let agrees = match run.known {
        None => "",
        Some(known) if known == run.blocks => "exact",
        Some(_) => "DIFFERS",
    };
    let profile = |it: &FunctionProfile| {
        [format!("{:.0}", it.time_us), format!("{:.3}", it.avg_us), format!("{:.3}", it.s2_us2)]
    };
    let head = [run.scenario.to_string(), run.slots.to_string(), run.policy.to_owned()];
    let counts =
        [run.map.hit.to_string(), run.pages.to_string(), counts(run.blocks), known, agrees.to_owned()];
    head.into_iter().chain(counts).chain(profile(&run.map)).chain(profile(&run.unmap)).collect()
}

fn print_tables(runs: &[Run], pinned: &Pinned, live: u64) -> io::Result<()> {
    let head = [
        "scenario",
        "slots",
        "policy",
        "Hit",
        "pages",
        "made/freed",
        "known",
        "",
        "map Time",
        "Avg",
        "s^2",
        "unmap Time",
        "Avg",
        "s^2",
    ];
    let rows: Vec<_> = runs.iter().map(cells).collect();
    output::line(&table::lines(&head, &rows, head.len()).join("\n"))?;
    let clock = scenarios::clock_us();
    output::line(&format_args!(
        "\nTimes in µs; of each Avg {clock:.3} is the clock itself. Pages of all blocks over live ones:\n"
    ))?;
    let row = |slots: &u64| {
        let of = pinned.iter().filter(|(of, ..)| of == slots).map(|(_, _, ratio)| figure(Some(*ratio)));
        std::iter::once(slots.to_string()).chain(of).collect()
    };
    let rows: Vec<Vec<String>> = SLOTS.iter().map(row).collect();
    let title = format!("slots, {live} live");
    let names = POLICIES.map(|(_, name)| name);
    output::line(&table::lines(&[&[title.as_str()][..], &names].concat(), &rows, 4).join("\n"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (runs, pinned) = (runs(), pinned(args.live));
    let written = if args.json {
        let object = serde_json::json!({ "runs": runs, "live": args.live, "span_per_live_page": pinned });
        output::line(&format_args!("{object:#}"))
    } else {
        print_tables(&runs, &pinned, args.live)
    };
    output::end(written)
}
