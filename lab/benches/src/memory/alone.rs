//! Loads that each allocator plays in a process of its own: the kernel counts pages by process, and
//! allocators keep memory of earlier loads.

use super::Row;
use super::arrays::Arrays;
use super::sizes::Bounce;
use super::steady::Steady;
use crate::buffers::{Buffers, Glibc, Visitor, each};
use std::process::Command;

/// A load of some size.
pub(super) trait Load {
    /// Its name on the command line of the process that plays it.
    const NAME: &'static str;
    /// The units of its figures.
    const UNITS: &'static [&'static str];

    /// One of a size, with so many replacements.
    fn new(size: usize, replaced: usize) -> Self;

    /// Names itself, for people.
    fn title(&self) -> String;

    /// Returns the most that each figure of ours must be, and none where it has no bar.
    fn musts(&self) -> Vec<Option<f64>>;

    /// Plays it. Returns its figures.
    fn play<B: Buffers + 'static>(&self) -> Vec<f64>;
}

/// The design of ours to which bars apply: a space with the defaults.
const OURS: &str = "vmalloc, caching";

/// Returns the rows of all allocators, each from a process that does nothing else.
pub(super) fn run<L: Load>(size: usize, replaced: usize) -> Vec<Row> {
    let mut names = Names(Vec::new());
    each(&mut names);
    names.0.into_iter().filter_map(|name| in_child::<L>(name, name, None, size, replaced)).flatten().collect()
}

/// glibc's malloc told to keep what is freed: by default it maps blocks above a threshold, and
/// unmaps them when they are freed.
const TUNED: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296");

/// Returns the rows of glibc's malloc with thresholds above every size.
pub(super) fn run_tuned<L: Load>(size: usize, replaced: usize) -> Vec<Row> {
    in_child::<L>("libc aligned_alloc, tuned", Glibc::NAME, Some(TUNED), size, replaced).unwrap_or_default()
}

struct Names(Vec<&'static str>);

impl Visitor for Names {
    fn visit<B: Buffers + 'static>(&mut self) {
        self.0.push(B::NAME);
    }
}

/// Plays a load with one allocator in a process of its own, with a variable of its environment.
fn in_child<L: Load>(
    name: &str,
    allocator: &str,
    variable: Option<(&str, &str)>,
    size: usize,
    replaced: usize,
) -> Option<Vec<Row>> {
    let mut child = Command::new(std::env::current_exe().ok()?);
    let sizes = [size, replaced].map(|number| number.to_string());
    let output = child.args(["--alone", L::NAME, allocator]).args(&sizes).envs(variable).output().ok()?;
    let figures: Vec<f64> = serde_json::from_slice(&output.stdout).ok()?;
    let load = L::new(size, replaced);
    let row = |((&unit, value), must): ((&&'static str, f64), Option<f64>)| {
        let row = Row::new(load.title(), name, value, unit);
        if name == OURS { row.must(must) } else { row }
    };
    Some(L::UNITS.iter().zip(figures).zip(load.musts()).map(row).collect())
}

/// Plays a load with one allocator, both by their names. Returns the figures; none if there is no
/// such load or allocator.
pub fn play(load: &str, allocator: &str, size: usize, replaced: usize) -> Vec<f64> {
    match load {
        Arrays::NAME => play_with(&Arrays::new(size, replaced), allocator),
        Steady::NAME => play_with(&Steady::new(size, replaced), allocator),
        Bounce::NAME => play_with(&Bounce::new(size, replaced), allocator),
        _ => Vec::new(),
    }
}

fn play_with<L: Load>(load: &L, allocator: &str) -> Vec<f64> {
    let mut play = Play { load, allocator, figures: Vec::new() };
    each(&mut play);
    play.figures
}

struct Play<'a, L> {
    load: &'a L,
    allocator: &'a str,
    figures: Vec<f64>,
}

impl<L: Load> Visitor for Play<'_, L> {
    fn visit<B: Buffers + 'static>(&mut self) {
        if B::NAME == self.allocator {
            self.figures = self.load.play::<B>();
        }
    }
}

/// Returns the page faults of this process that read nothing from a disk.
pub(super) fn minor_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure that it is given; one of zeros is valid as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt as u64
}
