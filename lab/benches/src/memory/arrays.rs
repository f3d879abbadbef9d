//! Arrays of some MiB that come and go, and one that grows.

use super::Row;
use super::alone::{self, Load, minor_faults};
use crate::buffers::{Buffers, Live};
use crate::by_hand::kib;
use crate::rounds::{Limits, cpu_ns};
use vmalloc::{Request, Resize, Space, SpaceOptions};
use vmalloc_kit::stats::median;
use vmalloc_linux::{Linux, LinuxOptions, open};

/// Arrays that are live at a time, and how often one is replaced.
const LIVE: usize = 50;
const REPLACED: usize = 1500;
/// MiB of the smallest and the largest array.
const SMALLEST: u64 = 4;
const LARGEST: u64 = 12;

/// The most page faults of all arrays, and the most memory over the most that was live, that ours
/// must take.
const MOST_FAULTS: f64 = 20_000.0;
const MOST_PEAK: f64 = 1.33;

/// Plays all allocators: arrays of random sizes are replaced, each advised and written to.
pub fn run(limits: &Limits) -> Vec<Row> {
    let replaced = if limits.rounds < 5 { REPLACED / 10 } else { REPLACED };
    alone::run::<Arrays>(LIVE, replaced)
}

/// So many live arrays, of which so many are replaced.
pub(super) struct Arrays {
    live: usize,
    replaced: usize,
}

impl Load for Arrays {
    const NAME: &'static str = "arrays";
    const UNITS: &'static [&'static str] =
        &["µs an array", "MiB in huge pages", "page faults", "peak over live"];

    fn new(live: usize, replaced: usize) -> Self {
        Self { live, replaced }
    }

    fn title(&self) -> String {
        format!("{} arrays, {} replaced", self.live, self.replaced)
    }

    fn musts(&self) -> Vec<Option<f64>> {
        vec![None, None, Some(MOST_FAULTS), Some(MOST_PEAK)]
    }

    fn play<B: Buffers + 'static>(&self) -> Vec<f64> {
        let huge_kib = || kib("smaps_rollup", "AnonHugePages:");
        let (faults, huge, resident) = (minor_faults(), huge_kib(), kib("status", "VmRSS:"));
        let (mut set, mut in_huge) = (None, 0);
        // As NumPy advises arrays of this size.
        let (pages, advice) = (SMALLEST << 8..=LARGEST << 8, Some(libc::MADV_HUGEPAGE));
        let buffers = B::build();
        let ns = cpu_ns(|| {
            let set = set.insert(Live::advised(buffers, 9, self.live, pages, advice));
            set.replace(self.replaced);
            in_huge = huge_kib().saturating_sub(huge);
        });
        let most = set.as_ref().map_or(0, |set| set.most);
        drop(set);
        let faults = minor_faults() - faults;
        let peak = kib("status", "VmHWM:").saturating_sub(resident) << 10;
        let arrays = (self.live + self.replaced) as f64;
        vec![ns / 1e3 / arrays, in_huge as f64 / 1024.0, faults as f64, peak as f64 / most as f64]
    }
}

/// MiB that the growing array ends with, and by how many it grows.
const GROWN: usize = 512;

/// Measures `vrealloc` in steps of a MiB with room in front, and what the C library makes of it.
pub fn growth(limits: &Limits) -> Vec<Row> {
    let load = format!("grown to {GROWN} MiB by 1 MiB");
    let space = open(LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
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
            addr = raw.realloc(addr, &Resize::new(bytes)).expect("memory");
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
