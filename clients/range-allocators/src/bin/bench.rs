//! Prints what a pair of alloc and free costs in each drop-in and in its original, side by side, and the heap memory of a live range.
//! An argument names the one crate to measure.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use range_allocators::*;

/// Counts the bytes in use on the heap.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: the system's allocator keeps the contract; counting changes nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

const LIVE: usize = 10_000;
const HOLES: usize = 15_000;
const ROUNDS: usize = 7;
const SEED: u64 = 7;
const BAR: f64 = 10.0;

/// Returns this thread's CPU time in nanoseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// An allocator in a state, and how a pair is played on it.
struct Bench<R> {
    ranges: R,
    live: Vec<(u64, u64)>,
    random: Xoshiro256PlusPlus,
    /// Heap bytes for each live range.
    heap: usize,
    /// The largest size, in units.
    most: u64,
}

impl<R: Ranges> Bench<R> {
    fn size(&mut self) -> u64 {
        (1 + self.random.next_u64() % self.most) * R::UNIT
    }

    /// Allocates and frees at random until `LIVE` ranges of 1 to `most` units are live in a steady state.
    fn steady(most: u64) -> Self {
        Self::steady_with(LIVE, most)
    }

    fn steady_with(count: usize, most: u64) -> Self {
        let before = IN_USE.load(Ordering::Relaxed);
        let live = Vec::with_capacity(count + 1);
        let bytes = size_of::<(u64, u64)>() * live.capacity();
        let mut bench = Self {
            ranges: R::new(1 << 42),
            live,
            random: Xoshiro256PlusPlus::seed_from_u64(SEED),
            heap: 0,
            most,
        };
        while bench.live.len() < count {
            bench.alloc();
        }
        (0..LIVE).for_each(|_| bench.pair());
        bench.heap = (IN_USE.load(Ordering::Relaxed) - before - bytes) / count;
        bench
    }

    /// Makes `HOLES` holes of one unit between ranges of one unit.
    fn holes() -> Self {
        let before = IN_USE.load(Ordering::Relaxed);
        let mut bench = Self {
            ranges: R::new(1 << 42),
            live: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(SEED),
            heap: 0,
            most: 1,
        };
        let starts: Vec<_> = (0..2 * HOLES).map(|_| bench.ranges.alloc(R::UNIT, R::UNIT).unwrap()).collect();
        starts.iter().step_by(2).for_each(|start| bench.ranges.free(*start, R::UNIT));
        drop(starts);
        bench.heap = (IN_USE.load(Ordering::Relaxed) - before) / HOLES;
        bench
    }

    fn alloc(&mut self) {
        let size = self.size();
        let start = self.ranges.alloc(size, R::UNIT).unwrap();
        self.live.push((black_box(start), size));
    }

    fn pair(&mut self) {
        let chosen = self.random.next_u64() as usize % self.live.len();
        let (start, size) = self.live.swap_remove(chosen);
        self.ranges.free(start, size);
        self.alloc();
    }

    /// Allocates two units, which no hole has, and frees them.
    fn past_holes(&mut self) {
        let start = self.ranges.alloc(2 * R::UNIT, R::UNIT).unwrap();
        self.ranges.free(black_box(start), 2 * R::UNIT);
    }
}

impl<S: Set> Bench<S> {
    fn chosen(&mut self) -> (u64, u64) {
        let chosen = self.random.next_u64() as usize % self.live.len();
        self.live[chosen]
    }

    fn find_free(&mut self) {
        let bytes = self.size();
        black_box(self.ranges.find_free(bytes).unwrap());
    }

    fn find_free_past_holes(&mut self) {
        black_box(self.ranges.find_free(2 * S::UNIT).unwrap());
    }

    /// Looks an address up that is inside a live range.
    fn find(&mut self) {
        let (start, bytes) = self.chosen();
        black_box(self.ranges.find(start + bytes / 2).unwrap());
    }

    fn replace(&mut self) {
        let (start, bytes) = self.chosen();
        self.ranges.replace(start, bytes);
    }
}

fn time<R>(bench: &mut Bench<R>, count: usize, pair: impl Fn(&mut Bench<R>)) -> f64 {
    let begin = now();
    (0..count).for_each(|_| pair(bench));
    (now() - begin) / count as f64
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Plays both in turn, and prints a row of the table.
fn row<A: Ranges, B: Ranges>(
    what: &str,
    ours: (Bench<A>, fn(&mut Bench<A>)),
    theirs: (Bench<B>, fn(&mut Bench<B>)),
    count: usize,
    bar: Option<f64>,
) {
    let ((mut ours, our_pair), (mut theirs, their_pair)) = (ours, theirs);
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        our_times.push(time(&mut ours, 20 * count, our_pair));
        their_times.push(time(&mut theirs, count, their_pair));
    }
    let (our, their) = (median(&mut our_times), median(&mut their_times));
    let (ratio, heaps) = (their / our, (theirs.heap, ours.heap));
    let verdict = match bar {
        Some(bar) if ratio >= bar => format!("≥ {bar} ×: reached"),
        Some(bar) => format!("≥ {bar} ×: NOT REACHED"),
        None => "–".to_owned(),
    };
    println!(
        "| {} | {what} | {their:.0} | {our:.0} | {ratio:.1} × | {verdict} | {} | {} |",
        A::NAME,
        heaps.0,
        heaps.1
    );
}

fn rows<A: Ranges, B: Ranges>(count: usize) {
    for (what, most) in [("10,000 live, 1…64 units", 64), ("10,000 live, 1…65,536 units", 1 << 16)] {
        row::<A, B>(
            what,
            (Bench::steady(most), Bench::pair),
            (Bench::steady(most), Bench::pair),
            count,
            Some(BAR),
        );
    }
    row::<A, B>(
        "15,000 holes of one unit, two asked for",
        (Bench::holes(), Bench::past_holes),
        (Bench::holes(), Bench::past_holes),
        count,
        Some(BAR),
    );
}

/// Prints rows of the steps of a set, one by one.
fn steps<A: Set, B: Set>(count: usize) {
    let ours = || Bench::<A>::steady(64);
    let theirs = || Bench::<B>::steady(64);
    row(
        "find_free_area alone, 10,000 live, 1…64 units",
        (ours(), Bench::find_free),
        (theirs(), Bench::find_free),
        count,
        Some(BAR),
    );
    row::<A, B>(
        "find_free_area alone, 15,000 holes of one unit, two asked for",
        (Bench::holes(), Bench::find_free_past_holes),
        (Bench::holes(), Bench::find_free_past_holes),
        count,
        Some(BAR),
    );
    for (what, live) in [("8 live, 1…64 units", 8), ("100 live, 1…64 units", 100)] {
        row::<A, B>(
            what,
            (Bench::steady_with(live, 64), Bench::pair),
            (Bench::steady_with(live, 64), Bench::pair),
            20 * count,
            None,
        );
    }
    row("find, 10,000 live", (ours(), Bench::find), (theirs(), Bench::find), 20 * count, None);
    row(
        "unmap_exact and map, 10,000 live",
        (ours(), Bench::replace),
        (theirs(), Bench::replace),
        20 * count,
        None,
    );
}

fn main() {
    let only = std::env::args().nth(1);
    let wants = |name: &str| only.as_ref().is_none_or(|only| only == name);
    println!(
        "A pair of alloc and free, medians of {ROUNDS} interleaved rounds, CPU time. Heap: bytes for each live range (each hole).\n"
    );
    println!("| crate | state | original, ns | ours, ns | gain | bar | heap, original | heap, ours |");
    println!("|---|---|---|---|---|---|---|---|");
    if wants(FreeList::NAME) {
        rows::<FreeList, FreeListOriginal>(2_000);
    }
    if wants(RangeAlloc::NAME) {
        rows::<RangeAlloc, RangeAllocOriginal>(2_000);
    }
    if wants(VmAllocator::NAME) {
        rows::<VmAllocator, VmAllocatorOriginal>(500);
    }
    if wants(MemorySet::NAME) {
        rows::<MemorySet, MemorySetOriginal>(100);
        steps::<MemorySet, MemorySetOriginal>(500);
    }
}
