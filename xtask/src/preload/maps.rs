//! Mappings served by `libvmalloc_mmap.so`, beside the kernel's own.

use super::measure::{self, Cost, median};
use super::suites::Run;
use super::{Args, tools};
use anyhow::Result;
use std::path::Path;

/// Settings to run programs of others under.
pub(super) const RUNS: [Run<'_>; 3] = [
    ("default", &[]),
    ("4 KiB", &[("VMALLOC_MMAP_LEAST", "4K")]),
    ("4 KiB, kept", &[("VMALLOC_MMAP_LEAST", "4K"), ("VMALLOC_MMAP_KEEP", "64M")]),
];

/// Servers of mappings: the kernel without the library, and the library with these settings.
const SERVERS: [Run<'_>; 4] = [
    (KERNEL, &[]),
    ("exact", &[]),
    ("kept, given back", &[("VMALLOC_MMAP_KEEP", "64M"), ("VMALLOC_MMAP_CLEAR", "0")]),
    ("kept, cleared", &[("VMALLOC_MMAP_KEEP", "64M")]),
];
const KERNEL: &str = "kernel";

/// Sizes in KiB of the program that maps, touches and unmaps, with its cycles.
const SIZES: [(usize, usize); 4] = [(64, 40_000), (256, 10_000), (1024, 2500), (4096, 600)];
/// The parts of the pages that it touches, in percent.
const TOUCHED: [usize; 3] = [100, 10, 0];

/// Measures a program that maps, touches and unmaps, and some programs of others: all servers in each round, so that
/// what else the machine does meets all of them.
pub(super) fn bench(library: &Path, args: &Args) -> Result<()> {
    println!(
        "| load | served by | CPU | of the kernel's | page faults | peak MiB |\n|---|---|---|---|---|---|"
    );
    let loads = tools::loads();
    if let Some(program) = tools::compiled(&loads.join("maps.c"), "maps", &["-pthread"])? {
        for (size, cycles) in SIZES {
            for touched in TOUCHED {
                let words = [
                    program.display().to_string(),
                    size.to_string(),
                    touched.to_string(),
                    cycles.to_string(),
                ];
                let name = format!("{size} KiB, {touched} % touched");
                measure_load(&name, &words, cycles, library, args)?;
            }
        }
    } else {
        vmalloc_harness::not_run("preload maps", "there is no C compiler");
    }
    let words = loads.join("words.cpp").display().to_string();
    let objects = "print(sum(len([str(i) for i in range(200000)]) for _ in range(10)))";
    let programs: [(&str, &[&str]); 2] =
        [("g++", &["g++", "-O2", "-c", &words, "-o", "/dev/null"]), ("python3", &["python3", "-c", objects])];
    for (name, words) in programs {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        match tools::is_installed(name) {
            true => measure_load(name, &words, 1, library, args)?,
            false => vmalloc_harness::not_run(format!("preload {name}"), "it is not installed"),
        }
    }
    Ok(())
}

/// Measures one load of `cycles` cycles.
fn measure_load(name: &str, words: &[String], cycles: usize, library: &Path, args: &Args) -> Result<()> {
    if !name.contains(&args.only) {
        return Ok(());
    }
    let mut costs = SERVERS.map(|_| Vec::<Cost>::new());
    for _ in 0..args.rounds {
        for (&(server, settings), costs) in SERVERS.iter().zip(&mut costs) {
            let library = Some(library).filter(|_| server != KERNEL);
            costs.push(measure::run_with(words, library, settings)?);
        }
    }
    let mut first = None;
    for ((server, ..), costs) in SERVERS.iter().zip(&costs) {
        let middle = |of: fn(&Cost) -> f64| median(costs.iter().map(of));
        let ended = if costs.iter().all(|cost| cost.ended_well) { "" } else { " (FAILED)" };
        let (cpu, faults) = (middle(|it| it.cpu_s) / cycles as f64, middle(|it| it.faults) / cycles as f64);
        let ratio = cpu / *first.get_or_insert(cpu);
        let cpu = if cycles > 1 { format!("{:.1} µs", cpu * 1e6) } else { format!("{cpu:.2} s") };
        let peak = middle(|it| it.peak_mib);
        println!("| {name}{ended} | {server} | {cpu} | {ratio:.2} | {faults:.1} | {peak:.0} |");
    }
    Ok(())
}
