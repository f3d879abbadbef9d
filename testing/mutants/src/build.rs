//! Building the test binaries of the copy, and telling which mutants do not compile.

use crate::Failure;
use crate::tree::Places;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A test binary.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// Folder of the package, and name of the target.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where its tests expect to run: the package.
    pub(crate) folder: PathBuf,
}

/// The result of a build.
pub(crate) enum Built {
    Binaries(Vec<Binary>),
    /// The numbers of mutants that do not compile, and what the compiler says.
    Unfit(BTreeMap<u32, String>),
}

/// A line of cargo's output.
#[derive(Deserialize)]
struct Line {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
}

/// Builds the tests of `packages` in `tree`. What is built goes to `target`.
///
/// # Errors
/// The build fails, and no mutant is to blame.
pub(crate) fn build(
    tree: &Path,
    target: &Path,
    packages: &[String],
    places: &Places,
) -> Result<Built, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--quiet", "--locked", "--message-format=json"]);
    cargo.args(packages.iter().flat_map(|package| ["-p", package]));
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    let output = cargo.output()?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Line> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if output.status.success() {
        return Ok(Built::Binaries(lines.into_iter().filter_map(binary).collect()));
    }
    let messages = lines.into_iter().filter_map(|line| line.message);
    let errors: Vec<Message> = messages.filter(|message| message.level == "error").collect();
    let mut unfit = BTreeMap::new();
    for error in &errors {
        let numbers = error.spans.iter().flat_map(|span| to_blame(places, span));
        unfit.extend(numbers.map(|number| (number, error.rendered.clone().unwrap_or_default())));
    }
    if unfit.is_empty() {
        let told: Vec<_> = errors.into_iter().filter_map(|error| error.rendered).collect();
        let cargo = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the tests can't be built:\n{}{cargo}", told.join("\n")).into());
    }
    Ok(Built::Unfit(unfit))
}

fn binary(line: Line) -> Option<Binary> {
    let folder = line.manifest_path?.parent()?.to_owned();
    let (package, target) = (folder.file_name()?.to_str()?, line.target?.name);
    let is_test = line.profile.is_some_and(|profile| profile.test);
    let path = line.executable.filter(|_| is_test)?;
    Some(Binary { name: format!("{package}/{target}"), path, folder })
}

/// Returns the mutants that an error at `span` speaks of: the innermost around it, or else those in
/// it.
fn to_blame(places: &Places, span: &Span) -> Vec<u32> {
    let place = places.get(&span.file_name).map_or(&[][..], Vec::as_slice);
    let error = span.byte_start..span.byte_end;
    let of = |is_met: &dyn Fn(&Range<usize>) -> bool| -> Vec<u32> {
        place.iter().filter(|(_, range)| is_met(range)).map(|(number, _)| *number).collect()
    };
    let around = of(&|range| range.start <= error.start && error.end <= range.end);
    // The innermost ends first.
    match around.first() {
        Some(&number) => vec![number],
        None => of(&|range| error.start <= range.start && range.end <= error.end),
    }
}
