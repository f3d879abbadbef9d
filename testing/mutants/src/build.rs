//! Building the test binaries of the copy, and telling which mutants do not compile.

use crate::Failure;
use crate::mutant::Mutant;
use crate::tree::Places;
use cargo_metadata::diagnostic::{DiagnosticLevel, DiagnosticSpan};
use cargo_metadata::{Artifact, Message};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tests that are built together.
pub(crate) struct Build {
    /// The `--cfg` that they are built with, or none.
    pub(crate) cfg: &'static str,
    /// What cargo is told to build.
    pub(crate) words: Vec<String>,
}

/// The builds of explored schedules, and of models of weak memory.
const EXPLORED: [(&str, &[&str]); 2] = [
    ("shuttle", &["-p", "vmalloc-schedules", "--test", "all"]),
    ("loom", &["-p", "vmalloc-map", "-p", "vmalloc-short", "--lib"]),
];

impl Build {
    /// Returns the builds whose tests `wanted` are run against: those of `packages` for what names
    /// no tests.
    pub(crate) fn for_all<'a>(
        packages: &[String],
        wanted: impl Iterator<Item = &'a Mutant> + Clone,
    ) -> Vec<Self> {
        let is_named = |words: &[&str]| {
            wanted.clone().flat_map(|mutant| &mutant.explored).any(|test| words.contains(&&*test.package))
        };
        let words = packages.iter().flat_map(|package| ["-p", package]).map(str::to_owned).collect();
        let is_any = wanted.clone().any(|mutant| mutant.explored.is_empty());
        let own = is_any.then_some(Self { cfg: "", words });
        let explored = EXPLORED.into_iter().filter(|(_, words)| is_named(words));
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        own.into_iter().chain(explored.map(|(cfg, words)| Self { cfg, words: owned(words) })).collect()
    }
}

/// A test binary.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// Folder of the package, and name of the target.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where its tests expect to run: the package.
    pub(crate) folder: PathBuf,
    /// That of its build.
    pub(crate) cfg: &'static str,
}

impl Binary {
    /// Returns the name of its package: that of the crates' folders, and of the others' with a
    /// prefix.
    pub(crate) fn package(&self) -> String {
        let folder = self.name.split('/').next().unwrap_or_default();
        if folder.starts_with("vmalloc") { folder.to_owned() } else { format!("vmalloc-{folder}") }
    }
}

/// The result of a build.
pub(crate) enum Built {
    Binaries(Vec<Binary>),
    /// The numbers of mutants that do not compile, and what the compiler says.
    Unfit(BTreeMap<u32, String>),
}

/// Builds tests in `tree`. What is built goes to a folder below `target`.
///
/// # Errors
/// The build fails, and no mutant is to blame.
pub(crate) fn build(tree: &Path, target: &Path, of: &Build, places: &Places) -> Result<Built, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--no-run", "--quiet", "--locked", "--message-format=json"]);
    cargo.args(&of.words).current_dir(tree).env("CARGO_INCREMENTAL", "0");
    cargo.env("CARGO_TARGET_DIR", target.join(of.cfg));
    if !of.cfg.is_empty() {
        cargo.env("RUSTFLAGS", format!("--cfg {}", of.cfg));
    }
    let output = cargo.output()?;
    let (mut binaries, mut errors, mut unfit) = (Vec::new(), Vec::new(), BTreeMap::new());
    for message in Message::parse_stream(&output.stdout[..]) {
        match message? {
            Message::CompilerArtifact(built) => binaries.extend(binary(built, of.cfg)),
            Message::CompilerMessage(told) if told.message.level == DiagnosticLevel::Error => {
                let rendered = told.message.rendered.unwrap_or_default();
                let numbers = blamed(places, &told.message.spans).into_iter();
                unfit.extend(numbers.map(|number| (number, rendered.clone())));
                errors.push(rendered);
            }
            _ => {}
        }
    }
    if output.status.success() {
        return Ok(Built::Binaries(binaries));
    }
    if unfit.is_empty() {
        let cargo = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the tests can't be built:\n{}{cargo}", errors.join("\n")).into());
    }
    Ok(Built::Unfit(unfit))
}

fn binary(built: Artifact, cfg: &'static str) -> Option<Binary> {
    let folder = built.manifest_path.parent()?;
    let name = format!("{}/{}", folder.file_name()?, built.target.name);
    let path = built.executable.filter(|_| built.profile.test)?;
    Some(Binary { name, path: path.into(), folder: folder.into(), cfg })
}

/// Returns the mutants that an error speaks of.
fn blamed(places: &Places, spans: &[DiagnosticSpan]) -> Vec<u32> {
    let named: Vec<u32> = spans.iter().flat_map(|span| to_blame(places, span)).collect();
    if named.is_empty() { between(places, spans) } else { named }
}

/// Returns the mutants between the first and the last place that an error speaks of: a value that
/// is not dropped any more, for example, is not named where it was.
fn between(places: &Places, spans: &[DiagnosticSpan]) -> Vec<u32> {
    let Some(first) = spans.first() else { return Vec::new() };
    let here = || spans.iter().filter(|span| span.file_name == first.file_name);
    let [start, end] = [here().map(|span| span.byte_start).min(), here().map(|span| span.byte_end).max()];
    let all = start.unwrap_or(0) as usize..end.unwrap_or(0) as usize;
    let place = places.get(&first.file_name).map_or(&[][..], Vec::as_slice);
    let is_met = |range: &Range<usize>| all.start <= range.start && range.end <= all.end;
    place.iter().filter(|(_, range)| is_met(range)).map(|(number, _)| *number).collect()
}

/// Returns the mutants that an error at `span` speaks of: the innermost around it, or else those in
/// it.
fn to_blame(places: &Places, span: &DiagnosticSpan) -> Vec<u32> {
    let place = places.get(&span.file_name).map_or(&[][..], Vec::as_slice);
    let error = span.byte_start as usize..span.byte_end as usize;
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
