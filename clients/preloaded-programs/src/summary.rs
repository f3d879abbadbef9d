//! What a measurement says in all: a row for each load, means, and the loads that take more memory than they should.

use crate::Setup;
use crate::measure::Cost;

/// A load: its name, and its cost under each allocator, of which glibc is the first.
pub struct Measured {
    /// The name of the load.
    pub name: String,
    /// The least CPU time, and medians of the others.
    pub all: Vec<Cost>,
}

/// Prints peaks, of glibc's, their means, and the loads above the limits.
pub fn print(allocators: &[Setup<'_>], loads: &[Measured]) {
    let names: Vec<_> = allocators[1..].iter().map(|it| it.name).collect();
    println!("\n| load | peak of glibc, MiB | {} | page faults of vmalloc |", names.join(" | "));
    println!("|---|---|{}---|", "---|".repeat(names.len()));
    let row = |name: &str, peak: &str, ratio: &dyn Fn(usize) -> f64, faults: &str| {
        let ratios: Vec<_> = (1..allocators.len()).map(|nth| format!("{:.2}", ratio(nth))).collect();
        println!("| {name} | {peak} | {} | {faults} |", ratios.join(" | "));
    };
    for Measured { name, all } in loads {
        let faults = format!("{:.2}", all[1].faults / all[0].faults);
        row(name, &format!("{:.0}", all[0].peak_mib), &|nth| all[nth].peak_mib / all[0].peak_mib, &faults);
    }
    let mean = |name: &str, of: fn(&Cost) -> f64| {
        let logarithms = |nth: usize| loads.iter().map(move |it| (of(&it.all[nth]) / of(&it.all[0])).ln());
        row(name, "", &|nth| (logarithms(nth).sum::<f64>() / loads.len() as f64).exp(), "");
    };
    mean("geometric mean of peaks", |it| it.peak_mib);
    mean("geometric mean of least CPU times", |it| it.cpu_s);
    mean("geometric mean of page faults", |it| it.faults);
    let nth = |name: &str| allocators.iter().position(|it| it.name == name);
    let peers: Vec<_> = ["jemalloc", "mimalloc"].into_iter().filter_map(nth).collect();
    let above = |nth: usize, peers: &[usize], limit: f64| {
        let least = |all: &[Cost]| peers.iter().map(|&it| all[it].peak_mib).fold(f64::INFINITY, f64::min);
        let ratios = loads.iter().map(|it| (&it.name, it.all[nth].peak_mib / least(&it.all)));
        let above = ratios.filter(|(_, ratio)| *ratio > limit);
        above.map(|(name, ratio)| format!("{name} {ratio:.2}")).collect::<Vec<_>>().join("; ")
    };
    for (nth, name) in names[..2].iter().enumerate() {
        let (of_glibc, of_peers) = (above(nth + 1, &[0], 1.15), above(nth + 1, &peers, 1.05));
        println!("\n{name}, above 1.15 of glibc: {of_glibc}");
        println!("{name}, above 1.05 of the better of jemalloc and mimalloc: {of_peers}");
    }
}
