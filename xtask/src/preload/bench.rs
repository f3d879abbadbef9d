//! The cost of loads under several allocators, each preloaded, in one run.

use super::measure::{self, Cost, median};
use super::{Args, redis, tools};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// Starts of a process in one measurement.
const STARTS: usize = 300;

/// An allocator: its name and its library.
struct Allocator {
    name: &'static str,
    library: PathBuf,
}

/// Places where distributions have their libraries.
const FOLDERS: [&str; 4] = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Returns the allocators that this machine has. Of glibc's malloc the library is preloaded as well: some programs are
/// linked to another one.
fn allocators(library: &Path) -> Vec<Allocator> {
    let of_system = [
        ("glibc", "libc.so.6"),
        ("jemalloc", "libjemalloc.so.2"),
        ("mimalloc", "libmimalloc.so.2"),
        ("tcmalloc", "libtcmalloc_minimal.so.4"),
    ];
    let mut all = vec![Allocator { name: "vmalloc", library: library.into() }];
    for (name, file) in of_system {
        match FOLDERS.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists()) {
            Some(library) => all.push(Allocator { name, library }),
            None => vmalloc_harness::not_run(name, format!("{file} is not installed")),
        }
    }
    all.sort_by_key(|allocator| allocator.name != "glibc");
    all
}

/// A load: its name, and its command line.
struct Load {
    name: &'static str,
    words: Vec<String>,
}

fn loads() -> Result<Vec<Load>> {
    let (folder, text) = (tools::loads(), tools::text(24)?.display().to_string());
    let less = tools::text(3)?.display().to_string();
    let at = |file: &str| folder.join(file).display().to_string();
    let mut all = Vec::new();
    let mut add = |name, words: &[&str]| {
        if tools::is_installed(words[0]) {
            all.push(Load { name, words: words.iter().map(ToString::to_string).collect() });
        } else {
            vmalloc_harness::not_run(name, format!("{} is not installed", words[0]));
        }
    };
    match tools::python_with_numpy()? {
        Some(python) => {
            let python = python.display().to_string();
            add("numpy temporaries", &[&python, &at("temporaries.py")]);
            add("numpy live_set", &[&python, &at("live_set.py")]);
            add("numpy expressions", &[&python, &at("expressions.py")]);
        }
        None => vmalloc_harness::not_run("numpy", "it can't be installed"),
    }
    match tools::compiled(&folder.join("copies.c"), "copies", &[])? {
        Some(program) => add("copies", &[&program.display().to_string()]),
        None => vmalloc_harness::not_run("copies", "there is no C compiler"),
    }
    add("node buffers", &["node", &at("buffers.js")]);
    add("sqlite", &["sqlite3", ":memory:", &format!(".read {}", at("tables.sql"))]);
    add("g++", &["g++", "-O2", "-c", &at("words.cpp"), "-o", "/dev/null"]);
    add("git", &["git", "log", "-p", "-n", "100"]);
    add("xz", &["xz", "-3", "-c", &less]);
    add("sort", &["sort", &text]);
    Ok(all)
}

pub(super) fn run(library: &Path, args: &Args) -> Result<()> {
    let allocators = allocators(library);
    println!(
        "| load | allocator | CPU s | of glibc | least CPU s | of glibc | page faults | peak MiB | of glibc |\n|---|---|---|---|---|---|---|---|---|"
    );
    let mut failed = 0;
    for load in loads()?.iter().filter(|load| load.name.contains(&args.only)) {
        failed += measure_load(load, &allocators, args.rounds)?;
    }
    if "redis".contains(&args.only) && tools::is_installed("redis-server") {
        measure_redis(&allocators, args.rounds)?;
    }
    if "start".contains(&args.only) {
        measure_starts(&allocators, args.rounds)?;
    }
    if "realloc".contains(&args.only) {
        failed += measure_realloc(&allocators, args.rounds)?;
    }
    ensure!(failed == 0, "{failed} runs of loads failed: their figures mean nothing");
    Ok(())
}

/// Returns the results of all allocators: each is measured in each round, so that what else the machine does meets
/// all of them.
fn in_rounds<T>(
    allocators: &[Allocator],
    rounds: usize,
    measure: impl Fn(&Allocator) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = allocators.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (allocator, results) in allocators.iter().zip(&mut all) {
            results.push(measure(allocator)?);
        }
    }
    Ok(all)
}

/// Measures a load. The least of all runs is printed beside the median: it says more where a hypervisor takes its
/// own time for the same fresh pages. Returns how many runs failed.
fn measure_load(load: &Load, allocators: &[Allocator], rounds: usize) -> Result<usize> {
    let costs = in_rounds(allocators, rounds, |allocator| measure::run(&load.words, &allocator.library))?;
    let middle = |costs: &[Cost], of: fn(&Cost) -> f64| median(costs.iter().map(of));
    let least = |costs: &[Cost]| costs.iter().map(|it| it.cpu_s).fold(f64::INFINITY, f64::min);
    let of_glibc = |of: fn(&Cost) -> f64| middle(&costs[0], of);
    for (allocator, own) in allocators.iter().zip(&costs) {
        let ended = if own.iter().all(|cost| cost.ended_well) { "" } else { " (FAILED)" };
        let (cpu, peak) = (middle(own, |it| it.cpu_s), middle(own, |it| it.peak_mib));
        println!(
            "| {}{ended} | {} | {cpu:.3} | {:.2} | {:.3} | {:.2} | {:.0} | {peak:.0} | {:.2} |",
            load.name,
            allocator.name,
            cpu / of_glibc(|it| it.cpu_s),
            least(own),
            least(own) / least(&costs[0]),
            middle(own, |it| it.faults),
            peak / of_glibc(|it| it.peak_mib)
        );
    }
    Ok(costs.iter().flatten().filter(|cost| !cost.ended_well).count())
}

fn measure_redis(allocators: &[Allocator], rounds: usize) -> Result<()> {
    let loads = in_rounds(allocators, rounds, |allocator| redis::load(Some(&allocator.library), &[]))?;
    let mut first = None;
    for (allocator, own) in allocators.iter().zip(&loads) {
        let (cpu, peak) = (median(own.iter().map(|it| it.cpu_s)), median(own.iter().map(|it| it.peak_mib)));
        let faults = median(own.iter().map(|it| it.faults));
        let least = own.iter().map(|it| it.cpu_s).fold(f64::INFINITY, f64::min);
        let (cpu_of, least_of, peak_of) = *first.get_or_insert((cpu, least, peak));
        println!(
            "| redis | {} | {cpu:.3} | {:.2} | {least:.3} | {:.2} | {faults} | {peak:.0} | {:.2} |",
            allocator.name,
            cpu / cpu_of,
            least / least_of,
            peak / peak_of
        );
    }
    Ok(())
}

fn measure_starts(allocators: &[Allocator], rounds: usize) -> Result<()> {
    let words: Vec<_> = ["git", "--version"].map(str::to_owned).into();
    let mut first = None;
    let all = in_rounds(allocators, rounds, |allocator| {
        let starts = (0..STARTS).map(|_| measure::run(&words, &allocator.library));
        starts.map(|cost| cost.map(|cost| cost.cpu_s)).sum::<Result<f64, _>>()
    })?;
    for (allocator, sums) in allocators.iter().zip(&all) {
        let cpu = median(sums.iter().copied());
        let ratio = cpu / *first.get_or_insert(cpu);
        println!(
            "| start of {STARTS} processes | {} | {cpu:.3} | {ratio:.2} | – | – | – | – | – |",
            allocator.name
        );
    }
    Ok(())
}

/// Measures a block that grows by 1 MiB at a time: microseconds a step. Returns how many runs failed.
fn measure_realloc(allocators: &[Allocator], rounds: usize) -> Result<usize> {
    let Some(program) = tools::compiled(&tools::loads().join("realloc.c"), "realloc", &[])? else {
        vmalloc_harness::not_run("realloc", "there is no C compiler");
        return Ok(0);
    };
    let mut failed = 0;
    // The others copy up to 512 MiB at each step: once is enough.
    let is_quick = |name: &str| name == "glibc" || name == "vmalloc";
    for way in ["room", "blocked"] {
        for allocator in allocators {
            let count = if is_quick(allocator.name) { rounds } else { 1 };
            let steps = (0..count).filter_map(|_| {
                let mut command = std::process::Command::new(&program);
                command.arg(way).env("LD_PRELOAD", &allocator.library);
                String::from_utf8(command.output().ok()?.stdout).ok()?.trim().parse::<f64>().ok()
            });
            let steps: Vec<f64> = steps.collect();
            failed += count - steps.len();
            println!(
                "| realloc +1 MiB, {way} | {} | {:.1} µs a step |",
                allocator.name,
                median(steps.into_iter())
            );
        }
    }
    Ok(failed)
}
