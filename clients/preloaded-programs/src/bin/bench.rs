//! The cost of loads under several allocators, each preloaded, in one run.

use anyhow::{Result, ensure};
use clap::Parser;
use preloaded_programs::loads::{self, Load};
use preloaded_programs::measure::{Cost, median};
use preloaded_programs::summary::{self, Measured};
use preloaded_programs::{Setup, clean, library, not_run, root, tools};
use std::path::{Path, PathBuf};

/// Measure what loads cost under glibc, this library, this library with a budget of 16 MiB and with guards, jemalloc, mimalloc and tcmalloc
///
/// Medians, in one run, and at the end peaks, their means, and the loads above the limits. loads/loads.toml has most loads.
#[derive(Parser)]
#[command(name = "cargo xtask preload --bench")]
struct Args {
    /// Rounds of a measurement.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only what has this in its name.
    #[arg(long, default_value = "")]
    only: String,
}

/// Places where distributions have their libraries.
const FOLDERS: [&str; 4] = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Returns the libraries of other allocators that this machine has. Of glibc's malloc the library is preloaded as well: some
/// programs are linked to another one.
fn peers() -> Vec<(&'static str, PathBuf)> {
    let all = [
        ("glibc", "libc.so.6"),
        ("jemalloc", "libjemalloc.so.2"),
        ("mimalloc", "libmimalloc.so.2"),
        ("tcmalloc", "libtcmalloc_minimal.so.4"),
    ];
    let find = |(name, file): (&'static str, &str)| {
        let found = FOLDERS.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists());
        if found.is_none() {
            not_run(name, format!("{file} is not installed"));
        }
        Some((name, found?))
    };
    all.into_iter().filter_map(find).collect()
}

/// Returns all allocators, glibc's first.
fn setups<'a>(library: &'a Path, peers: &'a [(&str, PathBuf)]) -> Vec<Setup<'a>> {
    let of_peer =
        |(name, library): &'a (&str, PathBuf)| Setup { name, library: Some(library), settings: &[] };
    let of_vmalloc = |name, settings| Setup { name, library: Some(library), settings };
    let mut all: Vec<_> = peers.iter().map(of_peer).collect();
    let at = usize::from(!peers.is_empty());
    all.insert(at, of_vmalloc("vmalloc, guards", &[("VMALLOC_GUARDS", "1")]));
    all.insert(at, of_vmalloc("vmalloc, 16M", &[("VMALLOC_BUDGET", "16M")]));
    all.insert(at, of_vmalloc("vmalloc", &[]));
    all
}

fn main() -> Result<()> {
    let args = Args::parse();
    std::env::set_current_dir(root())?;
    let library = library()?;
    let peers = peers();
    let setups = setups(&library, &peers);
    println!(
        "| load | allocator | CPU s | of glibc | least CPU s | of glibc | page faults | peak MiB | of glibc |\n|---|---|---|---|---|---|---|---|---|"
    );
    let mut results = Vec::new();
    for load in loads::all()?.iter().filter(|load| load.name.contains(&args.only) && load.is_there()) {
        load.make()?;
        results.push(measure_load(load, &setups, args.rounds)?);
    }
    let mut failed = results.iter().flat_map(|load| &load.all).filter(|cost| !cost.ended_well).count();
    if "realloc".contains(&args.only) {
        failed += measure_realloc(&setups, args.rounds)?;
    }
    if !results.is_empty() {
        summary::print(&setups, &results);
    }
    clean();
    ensure!(failed == 0, "{failed} runs of loads failed: their figures mean nothing");
    Ok(())
}

/// Measures a load. Each allocator is measured in each round, so that what else the machine does meets all of them. The
/// least CPU time is printed beside the median: it says more where a hypervisor takes its own time for the same fresh
/// pages. Returns for each allocator the least, and medians of the others.
fn measure_load(load: &Load, allocators: &[Setup<'_>], rounds: usize) -> Result<Measured> {
    let name = load.name.clone();
    let mut costs = vec![Vec::new(); allocators.len()];
    for _ in 0..rounds {
        for (allocator, costs) in allocators.iter().zip(&mut costs) {
            costs.push(load.run(allocator)?);
        }
    }
    let (mut all, mut of_glibc) = (Vec::new(), None);
    for (allocator, costs) in allocators.iter().zip(&costs) {
        let middle = |of: fn(&Cost) -> f64| median(costs.iter().map(of));
        let (cpu, least) =
            (middle(|it| it.cpu_s), costs.iter().map(|it| it.cpu_s).fold(f64::INFINITY, f64::min));
        let (faults, peak_mib) = (middle(|it| it.faults), middle(|it| it.peak_mib));
        let ended_well = costs.iter().all(|cost| cost.ended_well);
        let (cpu_of, least_of, peak_of) = *of_glibc.get_or_insert((cpu, least, peak_mib));
        println!(
            "| {name}{} | {} | {cpu:.3} | {:.2} | {least:.3} | {:.2} | {faults:.0} | {peak_mib:.0} | {:.2} |",
            if ended_well { "" } else { " (FAILED)" },
            allocator.name,
            cpu / cpu_of,
            least / least_of,
            peak_mib / peak_of
        );
        all.push(Cost { cpu_s: least, faults, peak_mib, ended_well });
    }
    Ok(Measured { name, all })
}

/// Measures a block that grows by 1 MiB at a time: microseconds a step. Returns how many runs failed.
fn measure_realloc(allocators: &[Setup<'_>], rounds: usize) -> Result<usize> {
    let Some(program) = tools::compiled(&tools::loads().join("realloc.c"), "realloc", &[])? else {
        not_run("realloc", "there is no C compiler");
        return Ok(0);
    };
    let mut failed = 0;
    for way in ["room", "blocked"] {
        for allocator in allocators {
            // The others copy up to 512 MiB at each step: once is enough.
            let is_quick = allocator.name == "glibc" || allocator.name.starts_with("vmalloc");
            let count = if is_quick { rounds } else { 1 };
            let steps = (0..count).filter_map(|_| {
                let output = allocator.command(&program).arg(way).output();
                String::from_utf8(output.ok()?.stdout).ok()?.trim().parse::<f64>().ok()
            });
            let steps: Vec<f64> = steps.collect();
            failed += count - steps.len();
            let middle = median(steps.into_iter());
            println!("| realloc +1 MiB, {way} | {} | {middle:.1} µs a step |", allocator.name);
        }
    }
    Ok(failed)
}
