//! `vmalloc map`: a picture of a kernel's vmalloc space, from its `/proc/vmallocinfo`.
//!
//! ```text
//!   file ──► areas, damaged lines ──► summary ──► text, JSON
//!                 └──► strips ──► letters, SVG
//! ```

pub(crate) mod summary;

use crate::args::MapOptions;
use crate::error::{Exit, Failure};
use crate::input::{self, name};
use crate::output;
use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use summary::{Summary, is_partial, remarked};
use vmalloc_inspect::program::picture::svg;
use vmalloc_inspect::program::picture::terminal;
use vmalloc_inspect::program::vmallocinfo::{Addresses, Vmallocinfo};

/// Columns where neither the environment nor a terminal tells.
const COLUMNS: usize = 80;
/// Columns that are of use: addresses take 20, and no reader counts more than a thousand cells.
const USEFUL_COLUMNS: std::ops::RangeInclusive<usize> = 40..=1000;

/// Runs the command.
pub(crate) fn run(options: &MapOptions, json: bool) -> Result<Exit, Failure> {
    let path = options.file.as_path();
    let info = Vmallocinfo::read(input::open_text(path)?).map_err(|error| input::unreadable(path, &error))?;
    if info.entries.is_empty() {
        return Err(Failure::new(format!("{} has no line that is an area", name(path))));
    }
    let summary = Summary::new(&info);
    let exit = complain(&info, &summary, options);
    match &options.svg {
        Some(file) if info.addresses == Addresses::Real => write_svg(file, &info, path)?,
        _ => {}
    }
    output::tell("map", &summary, &text(&info, &summary), json).map(|()| exit)
}

/// Says on stderr what is wrong with the file, and ends accordingly.
fn complain(info: &Vmallocinfo, summary: &Summary<'_>, options: &MapOptions) -> Exit {
    let mut exit = Exit::Success;
    if let Some(reason) = summary.hidden() {
        output::note(reason);
        exit = Exit::Failed;
    }
    let is_remarked = remarked(info);
    if is_partial(info) || is_remarked && options.strict {
        exit = Exit::Failed;
    }
    exit
}

fn write_svg(file: &Path, info: &Vmallocinfo, path: &Path) -> Result<(), Failure> {
    if is_same_file(file, path) {
        return Err(Failure::new(format!("--svg {} would overwrite what is read", file.display())));
    }
    let title = format!("vmalloc areas of {}", name(path));
    let picture = svg::picture(&title, &info.strips());
    std::fs::write(file, picture.into_string())
        .map_err(|error| Failure::new(format!("can't write {}: {error}", file.display())))
}

/// Returns whether both paths lead to one file that is there, by whatever name.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    identity(one).is_some_and(|known| identity(other) == Some(known))
}

fn text(info: &Vmallocinfo, summary: &Summary<'_>) -> String {
    let strips = info.strips();
    if strips.is_empty() {
        return summary.to_string();
    }
    let picture = terminal::picture(&strips, columns());
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => format!("{}\n{summary}", strip_str(&picture)),
        _ => format!("{picture}\n{summary}"),
    }
}

fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let window =
        || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let columns = told.or_else(window).filter(|&columns| columns > 0).unwrap_or(COLUMNS);
    columns.clamp(*USEFUL_COLUMNS.start(), *USEFUL_COLUMNS.end())
}
