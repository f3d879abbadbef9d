//! `cargo xtask check`: the rules of style that a program can hold.

mod allowance;
mod figures;
mod lines;
mod page_size;
mod size;
mod source;

use allowance::Allowance;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// Hold the rules of size
///
/// Each violation that xtask/source/allowance.toml does not allow is printed with its place. The file
/// says, for each crate and rule, how many there are today; the numbers may only become smaller.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lower the allowances to what is there now. They are never raised.
    #[arg(long)]
    bless: bool,
    /// Print every violation, the allowed ones too.
    #[arg(long)]
    all: bool,
}

/// A place where a rule is broken.
pub(crate) struct Violation {
    /// The rule, as the allowances name it.
    pub(crate) rule: &'static str,
    /// The folder of the crate.
    pub(crate) package: String,
    /// The file, and the line if there is one.
    pub(crate) place: String,
    pub(crate) what: String,
}

impl Violation {
    fn new(rule: &'static str, package: &str, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { rule, package: package.to_owned(), place: place.into(), what: what.into() }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let packages = source::packages()?;
    let mut found = Vec::new();
    for package in &packages {
        size::check(package, &mut found);
        page_size::check(package, &mut found);
    }
    size::check_core(&packages, &mut found);
    // A workspace of its own, and a product all the same.
    page_size::check(&source::package(Path::new(page_size::PYTHON))?, &mut found);
    figures::check(&mut found)?;
    let allowance = Allowance::read()?;
    let mut groups: BTreeMap<(String, &str), Vec<&Violation>> = BTreeMap::new();
    for violation in &found {
        groups.entry((violation.package.clone(), violation.rule)).or_default().push(violation);
    }
    let counts = groups.iter().map(|((package, rule), all)| ((package.clone(), *rule), all.len()));
    let counts: BTreeMap<_, _> = counts.collect();
    if args.bless {
        return allowance.lowered(&counts).write();
    }
    let mut excess = 0;
    for ((package, rule), all) in &groups {
        excess += report(package, rule, all, allowance.of(package, rule), args.all);
    }
    allowance.print_slack(&counts);
    ensure!(excess == 0, "{excess} more violations than are allowed");
    Ok(())
}

/// Prints the violations of one rule in one crate, if they are too many. Returns by how many.
fn report(package: &str, rule: &str, all: &[&Violation], allowed: usize, verbose: bool) -> usize {
    let excess = all.len().saturating_sub(allowed);
    if excess > 0 || verbose {
        let mut lines: Vec<_> = all.iter().map(|it| format!("{}: {}", it.place, it.what)).collect();
        lines.dedup();
        println!("{}", lines.join("\n"));
    }
    let verdict = if excess > 0 { "TOO MANY" } else { "ok" };
    println!("{package}: {rule}: {} of {allowed} allowed: {verdict}", all.len());
    excess
}
