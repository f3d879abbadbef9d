//! `cargo xtask mutants`: whether the tests notice mistakes.
//!
//! The core, the Linux platform and the pools are copied with small changes, each behind a switch
//! that is read at run time, so that one build serves all. Then the tests run with one change after
//! the other switched on, the quick tests first, until one fails. A change that none notices
//! *survives*: that is a gap in the tests, or a change that makes no difference. Protocols that
//! only threads can break name the explored schedules, or the models of weak memory, that must each
//! notice: these are builds of their own.
//!
//! - [`syntax`]: the sites. [`switch`]: a text with switches. [`mutant`]: which are drawn or named.
//! - [`tree`]: the copy. [`mod@build`] and [`runs`]: cargo, and the binaries. [`lists`]: what is
//!   known.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod build;
mod lists;
mod mutant;
mod runs;
mod switch;
mod syntax;
mod tree;

use build::{Binary, Build, Built, build};
use clap::Parser;
use lists::{Difference, Lists};
use mutant::{Explored, Mutant, Origin, Source};
use runs::{Part, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, thread};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Run the tests against small changes of the crates, and tell which no test notices
#[derive(Parser)]
#[command(name = "cargo xtask mutants", bin_name = "cargo xtask mutants")]
struct Args {
    /// Only the mutants whose names, or whose explored tests, have one of these parts
    names: Vec<String>,
    /// Seed of the draw: the lists are about the default
    #[arg(long, default_value_t = 20261125)]
    seed: u64,
    /// How many sites are drawn
    #[arg(long, default_value_t = 96)]
    count: usize,
    /// How many binaries run at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The packages whose tests run
    #[arg(long = "package", short, default_values = packages())]
    packages: Vec<String>,
    /// Run no test that takes longer by itself, in seconds
    #[arg(long)]
    within: Option<u64>,
    /// Print the mutants, or all sites of the names, and run nothing
    #[arg(long)]
    list: bool,
    /// Write the list of mutants that are caught
    #[arg(long)]
    bless: bool,
}

impl Args {
    fn selects(&self, mutant: &Mutant) -> bool {
        let has = |part: &String| {
            let is_of = |test: &Explored| format!("{} {}", test.package, test.test).contains(part);
            mutant.name.contains(part) || mutant.explored.iter().any(is_of)
        };
        self.names.is_empty() || self.names.iter().any(has)
    }
}

/// So much of a change is printed.
const SHORT: usize = 60;

/// Returns the packages whose tests look at any of the crates.
fn packages() -> impl Iterator<Item = &'static str> {
    let all: BTreeSet<&str> = mutant::CRATES.iter().flat_map(|of| of.tests).copied().collect();
    all.into_iter()
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether the run shows nothing worse than the lists say.
fn run(args: &Args) -> Result<bool, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = folder.join("../..").canonicalize()?;
    let sources = mutant::sources(&root)?;
    let lists = Lists::read(folder)?;
    let named = fs::read_to_string(folder.join("named.toml"))?;
    let mut workshop = Workshop { root, sources, named, unfit: BTreeSet::new() };
    if args.list {
        return workshop.list(args, &lists).map(|()| true);
    }
    let (mutants, binaries) = workshop.build(args, &lists)?;
    let (own, explored): (Vec<_>, Vec<_>) = binaries.into_iter().partition(|binary| binary.cfg.is_empty());
    let parts = measure(&own, &workshop.place("times.json"), args)?;
    let numbered = (1..).zip(&mutants);
    let wanted: Vec<(u32, &Mutant)> = numbered.filter(|(_, mutant)| args.selects(mutant)).collect();
    println!(
        "{} of {} mutants, of {} sites",
        wanted.len(),
        mutants.len(),
        mutant::all(&workshop.sources).len()
    );
    let results = run_all(&workshop, &wanted, (&parts, &explored), args.jobs)?;
    let is_good = tell(&results, &mutants, &lists);
    if args.bless {
        let all: BTreeSet<&str> = mutants.iter().map(|mutant| &mutant.name[..]).collect();
        lists.bless(folder, &results, |name| all.contains(name))?;
    }
    Ok(is_good)
}

/// The sources, and what is made of them.
struct Workshop {
    root: PathBuf,
    sources: Vec<Source>,
    /// The text of the list of named mutants.
    named: String,
    /// Sites that do not compile.
    unfit: BTreeSet<String>,
}

impl Workshop {
    fn place(&self, name: &str) -> PathBuf {
        self.root.join("target/mutants").join(name)
    }

    /// Returns what is drawn, and what has a name.
    fn mutants(&self, args: &Args, lists: &Lists) -> Result<Vec<Mutant>, Failure> {
        let mut mutants = mutant::named(&self.sources, &self.named)?;
        let listed = lists.caught.iter().chain(lists.survivors.keys()).cloned().collect();
        let names: BTreeSet<String> = mutants.iter().map(|mutant| mutant.name.clone()).collect();
        let drawn = mutant::draw(&self.sources, args.seed, args.count, &listed, &self.unfit);
        mutants.extend(drawn.into_iter().filter(|mutant| !names.contains(&mutant.name)));
        Ok(mutants)
    }

    /// Prints the mutants, or all sites of the names.
    fn list(&self, args: &Args, lists: &Lists) -> Result<(), Failure> {
        let all = match args.names.is_empty() {
            true => self.mutants(args, lists)?,
            false => mutant::all(&self.sources),
        };
        let wanted = all.iter().filter(|mutant| args.selects(mutant));
        wanted.for_each(|mutant| println!("{}", self.told(mutant)));
        Ok(())
    }

    /// Builds the tests with as many mutants as compile.
    fn build(&mut self, args: &Args, lists: &Lists) -> Result<(Vec<Mutant>, Vec<Binary>), Failure> {
        let (tree, target) = (self.place("tree"), self.place("build"));
        'drawn: loop {
            let mutants = self.mutants(args, lists)?;
            let places = tree::copy(&self.root, &tree, &self.sources, &mutants)?;
            let mut all = Vec::new();
            for of in Build::for_all(&args.packages, mutants.iter().filter(|mutant| args.selects(mutant))) {
                eprintln!("building {} {} with {} mutants", of.cfg, of.words.join(" "), mutants.len());
                match build(&tree, &target, &of, &places)? {
                    Built::Binaries(binaries) => all.extend(binaries),
                    Built::Unfit(unfit) => {
                        let name = |number: u32| mutants[number as usize - 1].name.clone();
                        let unfit = unfit.into_iter().map(|(number, error)| (name(number), error));
                        self.leave_out(unfit.collect())?;
                        continue 'drawn;
                    }
                }
            }
            return Ok((mutants, all));
        }
    }

    /// Draws these sites no more, for they do not compile.
    fn leave_out(&mut self, unfit: BTreeMap<String, String>) -> Result<(), Failure> {
        if let Some((name, error)) = unfit.iter().find(|(name, _)| !name.contains(".rs:")) {
            return Err(format!("the named mutant {name} does not compile:\n{error}").into());
        }
        let names: Vec<String> = unfit.into_keys().collect();
        eprintln!("these do not compile, and others are drawn: {}", names.join(" "));
        self.unfit.extend(names);
        Ok(())
    }

    /// Returns what a mutant is: its name, its line, and the change.
    fn told(&self, mutant: &Mutant) -> String {
        let Mutant { name, edits, .. } = mutant;
        let (source, edit) = &edits[0];
        let (line, before) = self.sources[*source].line(&edit.range);
        let [before, after] = [before, &edit.after].map(short);
        match &after[..] {
            "" => format!("{name} (line {line}: without {before})"),
            _ => format!("{name} (line {line}: {before} → {after})"),
        }
    }
}

/// Returns the beginning of a text, on one line.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Runs each binary without a mutant, unless `notes` tells of the same binary. Returns their parts,
/// quickest first.
fn measure(binaries: &[Binary], notes: &Path, args: &Args) -> Result<Vec<Part>, Failure> {
    let text = fs::read_to_string(notes).unwrap_or_default();
    let known: BTreeMap<String, Told> = serde_json::from_str(&text).unwrap_or_default();
    let measured = side_by_side(args.jobs, binaries, |binary| {
        let key = format!("{} {:?}", binary.path.display(), fs::metadata(&binary.path)?.modified()?);
        let told = known.get(&key).map_or_else(|| runs::measure(binary), |told| Ok(told.clone()))?;
        Ok((binary, (key, told)))
    })?;
    let most = args.within.map_or(Duration::MAX, Duration::from_secs);
    let mut all = Vec::new();
    for (binary, (_, told)) in &measured {
        let (parts, left_out) = runs::parts(binary, told, most);
        left_out.iter().for_each(|test| println!("left out: {} {test}", binary.name));
        all.extend(parts);
    }
    all.sort_by_key(|part| part.time);
    let known: BTreeMap<String, Told> = measured.into_iter().map(|(_, told)| told).collect();
    fs::write(notes, serde_json::to_string(&known)?)?;
    let time: Duration = all.iter().map(|part| part.time).sum();
    println!("{} test binaries; without a mutant their tests take {} s", binaries.len(), time.as_secs());
    Ok(all)
}

/// Runs all mutants, and tells of each. Returns which were caught.
fn run_all(
    workshop: &Workshop,
    wanted: &[(u32, &Mutant)],
    (parts, explored): (&[Part], &[Binary]),
    jobs: usize,
) -> Result<BTreeMap<String, bool>, Failure> {
    let results = side_by_side(jobs, wanted, |(number, mutant)| {
        let tests = mutant::tests(&workshop.sources[mutant.edits[0].0].file);
        let by = match &mutant.explored[..] {
            [] => catch(*number, parts, tests)?,
            all => catch_explored(*number, explored, all)?,
        };
        let told = workshop.told(mutant);
        println!("{}", by.as_ref().map_or(format!("SURVIVED {told}"), |by| format!("caught   {told}: {by}")));
        Ok((mutant.name.clone(), by.is_some()))
    })?;
    Ok(results.into_iter().collect())
}

/// Works on all items, so many at a time.
fn side_by_side<'a, T: Sync, R: Send>(
    jobs: usize,
    items: &'a [T],
    work: impl Fn(&'a T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let own = || -> Result<Vec<R>, Failure> {
        let items = std::iter::from_fn(|| items.get(next.fetch_add(1, Relaxed)));
        items.map(&work).collect()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(own)).collect();
        let mut results = Vec::new();
        for worker in workers {
            results.extend(worker.join().map_err(|_| "a thread has panicked")??);
        }
        Ok(results)
    })
}

/// Returns which test of these packages catches a mutant.
fn catch(number: u32, parts: &[Part], packages: &[&str]) -> Result<Option<String>, Failure> {
    for part in parts.iter().filter(|part| packages.contains(&&*part.binary.package())) {
        if let Some(test) = runs::catch(part, number)? {
            return Ok(Some(test));
        }
    }
    Ok(None)
}

/// Returns the tests, if all of them catch a mutant.
fn catch_explored(number: u32, binaries: &[Binary], tests: &[Explored]) -> Result<Option<String>, Failure> {
    let mut by = Vec::new();
    for test in tests {
        let binary = binaries.iter().find(|binary| binary.package() == test.package);
        let binary = binary.ok_or_else(|| format!("there is no package {}", test.package))?;
        match runs::catch(&runs::alone(binary, test)?, number)? {
            Some(caught) => by.push(caught),
            None => return Ok(None),
        }
    }
    Ok(Some(by.join(", ")))
}

/// Tells what a run has shown that the lists do not say. Returns whether that is nothing bad.
fn tell(results: &BTreeMap<String, bool>, mutants: &[Mutant], lists: &Lists) -> bool {
    for (origin, what) in [(Origin::Named, "named"), (Origin::Drawn, "drawn or listed")] {
        let of = mutants.iter().filter(|mutant| mutant.origin == origin);
        let run: Vec<bool> = of.filter_map(|mutant| results.get(&mutant.name).copied()).collect();
        let caught = run.iter().filter(|is_caught| **is_caught).count();
        println!("{what}: {caught} caught, {} survived", run.len() - caught);
    }
    let difference = lists.compare(results);
    let Difference { lost, unexplained, gained } = &difference;
    lost.iter().for_each(|name| println!("LOST: tests have caught {name}"));
    unexplained.iter().for_each(|name| println!("UNEXPLAINED: survivors.toml has no reason for {name}"));
    gained.iter().for_each(|name| println!("{name} is caught now: it needs no entry in survivors.toml"));
    let known = lists.caught.iter().chain(lists.survivors.keys());
    let missing = known.filter(|name| !results.contains_key(*name)).count();
    if missing > 0 {
        println!("{missing} that are listed were not asked for");
    }
    lost.is_empty() && unexplained.is_empty()
}
