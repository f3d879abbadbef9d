//! The cost of loads under several allocators, each preloaded, in one run.

use super::measure::{self, Cost, median};
use super::summary::{self, Measured};
use super::{Args, redis, tools};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};

/// An allocator: its name, its library, and settings of it.
pub(super) struct Allocator {
    pub(super) name: &'static str,
    library: PathBuf,
    settings: &'static [(&'static str, &'static str)],
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
    let of_vmalloc = |name, settings| Allocator { name, library: library.into(), settings };
    let mut all = vec![of_vmalloc("vmalloc", &[]), of_vmalloc("vmalloc, 16M", &[("VMALLOC_BUDGET", "16M")])];
    for (name, file) in of_system {
        match FOLDERS.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists()) {
            Some(library) => all.push(Allocator { name, library, settings: &[] }),
            None => vmalloc_harness::not_run(name, format!("{file} is not installed")),
        }
    }
    all.sort_by_key(|allocator| allocator.name != "glibc");
    all
}

/// The loads: for each name the words of its command lines.
const LOADS: &str = include_str!("loads.toml");

type Loads = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn parse() -> Result<Loads> {
    toml::from_str(LOADS).context("loads.toml")
}

/// Returns the command lines of the loads that are wanted, with paths in place of what stands in braces.
fn loads(only: &str) -> Result<Loads> {
    let show = |path: PathBuf| path.display().to_string();
    let places = [
        ("{text}", show(tools::text(24)?)),
        ("{less}", show(tools::text(3)?)),
        ("{loads}", show(tools::loads())),
        ("{scratch}", show(super::scratch()?)),
        ("{python}", tools::python_with_packages()?.map_or("numpy".into(), show)),
    ];
    let mut all = parse()?;
    all.retain(|name, _| name.contains(only));
    for word in all.values_mut().flat_map(BTreeMap::values_mut).flatten() {
        *word = places.iter().fold(mem::take(word), |word, (name, path)| word.replace(name, path));
    }
    Ok(all)
}

pub(super) fn run(library: &Path, args: &Args) -> Result<()> {
    let allocators = allocators(library);
    println!(
        "| load | allocator | CPU s | of glibc | least CPU s | of glibc | page faults | peak MiB | of glibc |\n|---|---|---|---|---|---|---|---|---|"
    );
    let mut results = Vec::new();
    for (name, lines) in loads(&args.only)? {
        let words = &lines["run"];
        let needs = lines.get("needs").map_or(&words[..1], Vec::as_slice);
        if let Some(missing) = needs.iter().find(|program| !tools::is_installed(program)) {
            vmalloc_harness::not_run(name, format!("{missing} is not installed"));
            continue;
        }
        if let Some(make) = lines.get("make") {
            ensure!(measure::run(make, None, &[])?.ended_well, "the input of {name} can't be made");
        }
        results.push(measure_load(name, &allocators, args.rounds, |allocator| {
            measure::run(words, Some(&allocator.library), allocator.settings)
        })?);
    }
    if "redis".contains(&args.only) && tools::is_installed("redis-server") {
        results.push(measure_load("redis".into(), &allocators, args.rounds, |allocator| {
            redis::load(Some(&allocator.library), allocator.settings)
        })?);
    }
    let mut failed = results.iter().flat_map(|load| &load.all).filter(|cost| !cost.ended_well).count();
    if "realloc".contains(&args.only) {
        failed += measure_realloc(&allocators, args.rounds)?;
    }
    if !results.is_empty() {
        summary::print(&allocators, &results);
    }
    ensure!(failed == 0, "{failed} runs of loads failed: their figures mean nothing");
    Ok(())
}

/// Measures a load. Each allocator is measured in each round, so that what else the machine does meets all of them. The
/// least CPU time is printed beside the median: it says more where a hypervisor takes its own time for the same fresh
/// pages. Returns for each allocator the least, and medians of the others.
fn measure_load(
    name: String,
    allocators: &[Allocator],
    rounds: usize,
    measure: impl Fn(&Allocator) -> Result<Cost>,
) -> Result<Measured> {
    let mut costs = vec![Vec::new(); allocators.len()];
    for _ in 0..rounds {
        for (allocator, costs) in allocators.iter().zip(&mut costs) {
            costs.push(measure(allocator)?);
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
fn measure_realloc(allocators: &[Allocator], rounds: usize) -> Result<usize> {
    let Some(program) = tools::compiled(&tools::loads().join("realloc.c"), "realloc", &[])? else {
        vmalloc_harness::not_run("realloc", "there is no C compiler");
        return Ok(0);
    };
    let mut failed = 0;
    for way in ["room", "blocked"] {
        for allocator in allocators {
            // The others copy up to 512 MiB at each step: once is enough.
            let is_quick = allocator.name == "glibc" || allocator.name.starts_with("vmalloc");
            let count = if is_quick { rounds } else { 1 };
            let steps = (0..count).filter_map(|_| {
                let mut command = std::process::Command::new(&program);
                command
                    .arg(way)
                    .env("LD_PRELOAD", &allocator.library)
                    .envs(allocator.settings.iter().copied());
                String::from_utf8(command.output().ok()?.stdout).ok()?.trim().parse::<f64>().ok()
            });
            let steps: Vec<f64> = steps.collect();
            failed += count - steps.len();
            let middle = median(steps.into_iter());
            println!("| realloc +1 MiB, {way} | {} | {middle:.1} µs a step |", allocator.name);
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_load_runs_a_command_and_has_no_line_of_another_name() {
        for (name, lines) in super::parse().expect("TOML") {
            assert!(lines.get("run").is_some_and(|words| !words.is_empty()), "{name} runs nothing");
            assert!(lines.keys().all(|line| ["make", "needs", "run"].contains(&line.as_str())), "{name}");
        }
    }
}
