//! Arrays of some MiB that come and go, and one that grows.

use super::Row;
use crate::buffers::{Buffers, PAGE_BYTES, Visitor, each, touch};
use crate::rounds::{Limits, cpu_ns};
use std::fs;
use std::process::Command;
use std::ptr::NonNull;
use vmalloc::{Config, Request, Space};
use vmalloc_lab::rng::Rng;
use vmalloc_lab::stats::median;
use vmalloc_linux::{Linux, Options, open};

/// Arrays that are live at a time, and how often one is replaced.
const LIVE: usize = 50;
const REPLACED: usize = 1500;
/// MiB of the smallest and the largest array.
const SMALLEST: u64 = 4;
const LARGEST: u64 = 12;
/// From this size on NumPy advises the kernel to use huge pages.
const ADVISED_BYTES: usize = 4 << 20;

/// Plays all allocators: arrays of random sizes are replaced, each advised and written to. Each has
/// a process of its own, since huge pages are counted by process.
pub fn run(limits: &Limits) -> Vec<Row> {
    let replaced = if limits.rounds < 5 { REPLACED / 10 } else { REPLACED };
    let mut names = Names(Vec::new());
    each(&mut names);
    names.0.into_iter().filter_map(|name| in_child(name, replaced)).flatten().collect()
}

struct Names(Vec<&'static str>);

impl Visitor for Names {
    fn visit<B: Buffers + 'static>(&mut self) {
        self.0.push(B::NAME);
    }
}

/// Returns the rows of one allocator, from a process that does nothing else.
fn in_child(name: &str, replaced: usize) -> Option<Vec<Row>> {
    let mut child = Command::new(std::env::current_exe().ok()?);
    let output = child.args(["--arrays-of", name, "--replaced", &replaced.to_string()]).output().ok()?;
    let rows: Vec<(String, f64)> = serde_json::from_slice(&output.stdout).ok()?;
    let load = format!("{LIVE} arrays, {replaced} replaced");
    let unit = |name: &str| UNITS.into_iter().find(|unit| *unit == name);
    Some(rows.iter().filter_map(|(it, value)| Some(Row::new(&load, name, *value, unit(it)?))).collect())
}

/// The figures of one allocator.
const UNITS: [&str; 3] = ["µs an array", "MiB in huge pages", "page faults"];

/// Plays the allocator of this name. Returns each figure with its unit; nothing if there is none.
pub fn alone(name: &str, replaced: usize) -> Vec<(&'static str, f64)> {
    let mut play = Play { name, replaced, figures: Vec::new() };
    each(&mut play);
    play.figures
}

struct Play<'a> {
    name: &'a str,
    replaced: usize,
    figures: Vec<(&'static str, f64)>,
}

impl Visitor for Play<'_> {
    fn visit<B: Buffers + 'static>(&mut self) {
        if B::NAME != self.name {
            return;
        }
        let (faults, huge) = (minor_faults(), huge_kib());
        let (mut arrays, mut in_huge) = (Arrays::<B>::new(), 0);
        let ns = cpu_ns(|| {
            arrays.fill();
            arrays.replace(self.replaced);
            in_huge = huge_kib().saturating_sub(huge);
        });
        drop(arrays);
        let faults = minor_faults() - faults;
        let values = [ns / 1e3 / (LIVE + self.replaced) as f64, in_huge as f64 / 1024.0, faults as f64];
        self.figures = UNITS.into_iter().zip(values).collect();
    }
}

struct Arrays<B: Buffers> {
    buffers: B,
    live: Vec<(NonNull<u8>, usize)>,
    rng: Rng,
}

impl<B: Buffers> Arrays<B> {
    fn new() -> Self {
        Self { buffers: B::build(), live: Vec::with_capacity(LIVE), rng: Rng::new(9) }
    }

    fn fill(&mut self) {
        for _ in 0..LIVE {
            let array = self.make();
            self.live.push(array);
        }
    }

    fn replace(&mut self, times: usize) {
        for _ in 0..times {
            let place = self.rng.below(LIVE as u64) as usize;
            let (array, bytes) = self.live[place];
            // SAFETY: the array is live, and replaced in the set right below.
            unsafe { self.buffers.free(array, bytes) };
            self.live[place] = self.make();
        }
    }

    /// Makes an array as NumPy does, and writes to all of its pages.
    fn make(&mut self) -> (NonNull<u8>, usize) {
        let pages = self.rng.between(SMALLEST << 8, LARGEST << 8) as usize;
        let bytes = pages * PAGE_BYTES;
        let array = self.buffers.allocate(bytes);
        if bytes >= ADVISED_BYTES {
            // SAFETY: the whole pages of the array are this set's own; the advice keeps what they
            // hold. Where it is refused base pages serve.
            unsafe { libc::madvise(array.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: the allocator has just handed out these bytes.
        unsafe { touch(array, bytes) };
        (array, bytes)
    }
}

impl<B: Buffers> Drop for Arrays<B> {
    fn drop(&mut self) {
        for &(array, bytes) in &self.live {
            // SAFETY: the set holds live arrays only, and ends here.
            unsafe { self.buffers.free(array, bytes) };
        }
    }
}

fn minor_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure that it is given; one of zeros is valid as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt as u64
}

/// Returns the KiB of this process in huge pages; 0 where the kernel does not tell.
fn huge_kib() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// MiB that the growing array ends with, and by how many it grows.
const GROWN: usize = 512;

/// Measures `vrealloc` in steps of a MiB with room in front, and what the C library makes of it.
pub fn growth(limits: &Limits) -> Vec<Row> {
    let load = format!("grown to {GROWN} MiB by 1 MiB");
    let space = open(Options::new(), Config::default()).expect("addresses for a space");
    let players: [(&str, &dyn Fn()); 2] =
        [("vmalloc, caching", &|| grow_ours(&space)), ("libc realloc", &grow_libc)];
    let row = |(name, grow): (&'static str, &dyn Fn())| {
        let rounds: Vec<f64> = (0..limits.rounds).map(|_| cpu_ns(grow) / 1e3 / GROWN as f64).collect();
        Row::new(load.clone(), name, median(&rounds), "µs a step")
    };
    players.map(row).into()
}

/// Touches the last byte of each step, as a program that appends would.
fn grow_ours(space: &Space<Linux>) {
    let raw = space.raw();
    let mut addr = raw.alloc(&Request::new(1 << 20)).expect("memory");
    for mib in 2..=GROWN {
        let bytes = mib << 20;
        // SAFETY: the area is this function's alone, and has that many bytes then.
        unsafe {
            addr = raw.realloc(addr, &Request::new(bytes)).expect("memory");
            std::ptr::with_exposed_provenance_mut::<u8>(addr + bytes - 1).write_volatile(1);
        }
    }
    // SAFETY: nothing uses the area any more.
    unsafe { raw.free(addr) }.expect("it is busy");
}

fn grow_libc() {
    // SAFETY: the buffer is this function's alone, has so many bytes, and is freed once.
    unsafe {
        let mut buffer = libc::malloc(1 << 20);
        for mib in 2..=GROWN {
            let bytes = mib << 20;
            buffer = libc::realloc(buffer, bytes);
            assert!(!buffer.is_null(), "memory");
            buffer.cast::<u8>().add(bytes - 1).write_volatile(1);
        }
        libc::free(buffer);
    }
}
