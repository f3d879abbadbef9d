//! CPU time and peak memory of programs under glibc and under the library, in interleaved rounds.

use preloaded_programs::{Cost, Error, LOADS, Load, Setup, clean, glibc, library, median};
use std::path::Path;

const ROUNDS: usize = 5;
/// Settings of the library beside its defaults, to see what they are worth.
const SETTINGS: [(&str, &[(&str, &str)]); 2] =
    [("vmalloc", &[]), ("vmalloc, VMALLOC_BUDGET=16M", &[("VMALLOC_BUDGET", "16M")])];

/// Debian's packages of other allocators. Those that are not installed are left out.
const PEERS: [(&str, &str); 2] = [
    ("jemalloc", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    ("mimalloc", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"),
];

fn main() -> Result<(), Error> {
    let library = library()?;
    let glibc = glibc();
    let mut setups = vec![("glibc", Setup { library: glibc.as_deref(), settings: &[] })];
    setups.extend(
        SETTINGS.map(|(name, settings)| (name, Setup { library: Some(Path::new(&library)), settings })),
    );
    for (name, path) in PEERS.map(|(name, path)| (name, Path::new(path))) {
        if path.exists() {
            setups.push((name, Setup { library: Some(path), settings: &[] }));
        } else {
            println!("NOT RUN: {name}: {} is not installed", path.display());
        }
    }
    let only = std::env::args().nth(1).unwrap_or_default();
    println!(
        "| load | allocator | CPU s | of glibc | page faults | peak MiB | of glibc |\n|---|---|---|---|---|---|---|"
    );
    for load in LOADS.iter().filter(|load| load.name.contains(&only) && load.is_there()) {
        measure(load, &setups)?;
    }
    println!(
        "bars: peak ≤ 0.9 or CPU ≤ 0.95 of glibc on two programs at least, no more than 1.02 on any; medians of {ROUNDS}"
    );
    clean();
    Ok(())
}

/// Measures a load: all allocators in each round, so that what else the machine does meets all of them.
fn measure(load: &Load, setups: &[(&str, Setup<'_>)]) -> Result<(), Error> {
    let mut costs: Vec<Vec<Cost>> = setups.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for ((_, setup), costs) in setups.iter().zip(&mut costs) {
            costs.push((load.run)(setup)?);
        }
    }
    let middle = |costs: &[Cost]| {
        (median(costs.iter().map(|cost| cost.cpu_s)), median(costs.iter().map(|cost| cost.peak_mib)))
    };
    let (glibc_cpu, glibc_peak) = middle(&costs[0]);
    for ((name, _), costs) in setups.iter().zip(&costs) {
        let (cpu, peak) = middle(costs);
        let (of_cpu, of_peak) = (cpu / glibc_cpu, peak / glibc_peak);
        let faults = median(costs.iter().map(|cost| cost.faults));
        println!("| {} | {name} | {cpu:.3} | {of_cpu:.2} | {faults} | {peak:.0} | {of_peak:.2} |", load.name);
    }
    Ok(())
}
