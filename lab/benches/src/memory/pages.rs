//! Pages in and out at fixed addresses: a buffer pool in a reserved area of 64 GiB.
//!
//! Two threads bring random pages in, by a touch, and evict the oldest ones in batches. Evicted
//! pages read as zero, or trap.

use super::Row;
use crate::by_hand::{
    ACCESS, Mapped, PAGE, drop_range, drop_ranges, flush_interrupts, kernel_mappings, touch,
};
use crate::rounds::{Limits, cpu_ns};
use rustix::mm::{MprotectFlags, ProtFlags};
use std::collections::HashSet;
use std::ops::Range;
use vmalloc::{Request, SpaceOptions};
use vmalloc_kit::rng::Rng;
use vmalloc_kit::stats::median;
use vmalloc_linux::{SharedSpace, open};

/// Bytes of the area.
const AREA: usize = 64 << 30;
/// Threads, each with its own part of the area.
const THREADS: usize = 2;
/// Pages that are evicted together.
const BATCH: usize = 512;
/// The span of one table of pages: in each, a page is touched before anything is measured.
const TABLE: usize = 2 << 20;

/// A way to bring batches of pages in, and to evict them.
trait Way: Sync {
    fn name(&self) -> &'static str;
    /// Returns the first address of the area.
    fn addr(&self) -> usize;
    /// Makes pages accessible.
    fn bring_in(&self, pages: &[Range<usize>]);
    /// Evicts pages, which nothing uses any more.
    fn evict(&self, pages: &[Range<usize>]);
}

/// A reserved area of ours.
struct Ours {
    space: SharedSpace,
    addr: usize,
    traps: bool,
}

impl Ours {
    fn new(traps: bool) -> Self {
        let space =
            open(vmalloc_linux::LinuxOptions::new(), SpaceOptions::default()).expect("addresses for a space");
        let addr = space.raw().reserve(&Request::new(AREA).align(TABLE)).expect("addresses for the area");
        let ours = Self { space, addr, traps };
        if !traps {
            let all = addr..addr + AREA;
            // SAFETY: the area is the bench's, and nothing is committed in it.
            unsafe { ours.space.raw().commit(&[all]) }.expect("addresses for the area");
        }
        ours
    }
}

impl Way for Ours {
    fn name(&self) -> &'static str {
        if self.traps { "vmalloc, evicted pages trap" } else { "vmalloc, evicted pages read as zero" }
    }

    fn addr(&self) -> usize {
        self.addr
    }

    fn bring_in(&self, pages: &[Range<usize>]) {
        if self.traps {
            // SAFETY: the pages are the calling thread's, and not committed.
            unsafe { self.space.raw().commit(pages) }.expect("memory for a batch");
        }
    }

    fn evict(&self, pages: &[Range<usize>]) {
        let raw = self.space.raw();
        // SAFETY: the pages are the calling thread's, committed, and of no more use.
        let done = unsafe { if self.traps { raw.decommit(pages) } else { raw.discard(pages) } };
        done.expect("plain memory");
    }
}

/// Memory of the kernel's, and its calls.
struct ByHand {
    memory: Mapped,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Vectors,
    Madvise,
    Mprotect,
}

impl ByHand {
    fn new(how: How) -> Self {
        let access = if how == How::Mprotect { ProtFlags::empty() } else { ACCESS };
        Self { memory: Mapped::new(AREA, access).expect("addresses for the area"), how }
    }

    fn protect(&self, page: &Range<usize>, access: MprotectFlags) {
        self.memory.protect(page.clone(), access).expect("a mapping more");
    }
}

impl Way for ByHand {
    fn name(&self) -> &'static str {
        match self.how {
            How::Vectors => "process_madvise by hand, read as zero",
            How::Madvise => "madvise each by hand, read as zero",
            How::Mprotect => "mprotect each by hand, trap",
        }
    }

    fn addr(&self) -> usize {
        self.memory.addr()
    }

    fn bring_in(&self, pages: &[Range<usize>]) {
        if self.how == How::Mprotect {
            pages.iter().for_each(|page| self.protect(page, MprotectFlags::READ | MprotectFlags::WRITE));
        }
    }

    fn evict(&self, pages: &[Range<usize>]) {
        for page in pages {
            match self.how {
                How::Vectors => {
                    // SAFETY: the pages are the calling thread's, and of no more use.
                    unsafe { drop_ranges(pages) };
                    break;
                }
                // SAFETY: as above.
                How::Madvise => unsafe { drop_range(page) },
                How::Mprotect => {
                    // SAFETY: as above.
                    unsafe { drop_range(page) };
                    self.protect(page, MprotectFlags::empty());
                }
            }
        }
    }
}

/// Draws a batch of pages of a thread's part, no page twice.
fn draw(rng: &mut Rng, part: &Range<usize>) -> Vec<Range<usize>> {
    let mut pages = HashSet::with_capacity(BATCH);
    while pages.len() < BATCH {
        pages.insert(part.start + rng.below((part.len() / PAGE) as u64) as usize * PAGE);
    }
    pages.into_iter().map(|addr| addr..addr + PAGE).collect()
}

fn play(way: &dyn Way, batches: &[Vec<Range<usize>>]) {
    for pages in batches {
        way.bring_in(pages);
        for page in pages {
            // SAFETY: the page is accessible, and this thread's.
            unsafe { touch(page.clone()) };
        }
        way.evict(pages);
    }
}

/// Lets all threads bring pages in and evict them. Returns CPU µs and interrupts, each for a page.
fn measure(way: &dyn Way, seed: u64, batches: usize) -> [f64; 2] {
    let part = AREA / THREADS;
    let parts = (0..THREADS).map(|nth| {
        let (mut rng, start) = (Rng::new(seed + nth as u64), way.addr() + nth * part);
        (0..batches).map(|_| draw(&mut rng, &(start..start + part))).collect::<Vec<_>>()
    });
    let parts: Vec<_> = parts.collect();
    let before = flush_interrupts();
    // Each thread counts its own time.
    let ns: f64 = std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.iter().map(|part| scope.spawn(move || cpu_ns(|| play(way, part)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let interrupts = flush_interrupts() - before;
    let pages = (THREADS * batches * BATCH) as f64;
    [ns / 1e3 / pages, interrupts as f64 / pages]
}

/// Touches a page in each table of pages, so that none is made while it is measured.
fn warm_up(way: &dyn Way) {
    let firsts: Vec<_> =
        (way.addr()..way.addr() + AREA).step_by(TABLE).map(|addr| addr..addr + PAGE).collect();
    firsts.chunks(BATCH).for_each(|pages| play(way, std::slice::from_ref(&pages.to_vec())));
}

/// Returns how many mappings the kernel has for the way, with a batch of pages in.
fn mappings(way: &dyn Way, before: usize) -> usize {
    let pages = draw(&mut Rng::new(1), &(way.addr()..way.addr() + AREA));
    way.bring_in(&pages);
    // SAFETY: the pages are accessible, and the bench's.
    pages.iter().for_each(|page| unsafe { touch(page.clone()) });
    let count = kernel_mappings().saturating_sub(before);
    way.evict(&pages);
    count
}

/// Measures the group.
///
/// # Panics
/// Where there are no addresses for the area.
pub fn run(limits: &Limits) -> Vec<Row> {
    let batches = (limits.window.as_micros() as usize / (3 * BATCH)).max(4);
    let mut rows = Vec::new();
    let mut ways: Vec<(Box<dyn Way>, usize)> = Vec::new();
    let add = |ways: &mut Vec<_>, make: &dyn Fn() -> Box<dyn Way>| {
        let before = kernel_mappings();
        let way = make();
        warm_up(&*way);
        let count = mappings(&*way, before);
        ways.push((way, count));
    };
    [false, true].iter().for_each(|traps| add(&mut ways, &|| Box::new(Ours::new(*traps))));
    for how in [How::Vectors, How::Madvise, How::Mprotect] {
        add(&mut ways, &|| Box::new(ByHand::new(how)));
    }
    let mut rounds = vec![[Vec::new(), Vec::new()]; ways.len()];
    for seed in 0..limits.rounds {
        for ((way, _), round) in ways.iter().zip(&mut rounds) {
            let figures = measure(&**way, seed as u64, batches);
            round.iter_mut().zip(figures).for_each(|(round, figure)| round.push(figure));
        }
    }
    for ((way, mappings), [us, interrupts]) in ways.iter().zip(&rounds) {
        let mut push =
            |value, unit| rows.push(Row::new("random 4 KiB pages, 64 GiB", way.name(), value, unit));
        push(median(us), "µs a page");
        push(interrupts.iter().sum::<f64>() / interrupts.len() as f64, "interrupts a page");
        push(*mappings as f64, "kernel mappings, a batch in");
    }
    rows
}
